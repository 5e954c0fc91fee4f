/** Gives access to the accounts: in the storage while no relay uses it, else through the API. */
import { readEnvironment } from "../../config/environment.ts";
import { StartError } from "../../core/model/errors.ts";
import { Problem } from "../../core/model/problem.ts";
import type { Account, AccountKeeper, Users } from "../../core/ports/auth.ts";
import type { Plan } from "../../core/ports/plan.ts";
import { pathOf } from "./api-path.ts";
import type { CliEnvironment } from "./environment.ts";
import { openApi } from "./client.ts";
import type { Given } from "./command.ts";
import { EX_CONFIG, EX_OK, EX_REFUSED, EX_TEMPFAIL, EX_USAGE, ExitError } from "./exit.ts";
import { loadFor } from "./load-config.ts";
import { record, rows } from "./response-shape.ts";

/**
 * Runs `use` with the accounts.
 * @param folder `"made"`: where there is no data folder, it is made with its keys; else that is an error. @default "there"
 * @throws ExitError, StartError
 */
export async function withUsers(
  given: Given,
  io: CliEnvironment,
  use: (users: Users) => Promise<void>,
  folder: "made" | "there" = "there",
): Promise<number> {
  const { settings } = readEnvironment(io.env);
  const elsewhere = [given.text("url"), given.text("token"), settings.url, settings.token].some(
    (one) => one !== undefined,
  );
  if (elsewhere || !(await useStorage(given, io, use, folder))) await use(await throughApi(given, io));
  return EX_OK;
}

/** False while a relay uses the storage: then the API is asked. */
async function useStorage(
  given: Given,
  io: CliEnvironment,
  use: (users: Users) => Promise<void>,
  folder: "made" | "there",
): Promise<boolean> {
  const { plan } = await loadFor(given, io);
  const keeper = keeperOf(plan);
  if (keeper === undefined) throw new ExitError(EX_CONFIG, `${plan.auth.name}() keeps no accounts: its issuer does`);
  if (plan.storage.name === "memory") return false;
  const [{ authContext, openStorage }, { refuseMissingFolder }] = await Promise.all([
    import("./offline.ts"),
    import("./source-storage.ts"),
  ]);
  if (folder === "there") refuseMissingFolder(plan);
  const storage = await openStorage(plan, io).catch((error: unknown) => {
    if (error instanceof StartError && error.exitCode === EX_TEMPFAIL) return undefined;
    throw error;
  });
  if (storage === undefined) return false;
  try {
    await use(keeper.users(await authContext(plan, io, storage)));
  } catch (error) {
    throw error instanceof Problem ? refusal(error) : error;
  } finally {
    await storage.dispose();
  }
  return true;
}

const keeperOf = ({ auth }: Plan): AccountKeeper | undefined =>
  "users" in auth && typeof auth.users === "function" ? (auth as Plan["auth"] & AccountKeeper) : undefined;

function refusal({ code, detail, extras, status }: Problem): ExitError {
  const lines = (extras.errors ?? []).map(({ path, message }) => `  ${path === "" ? "" : `${path}: `}${message}`);
  return new ExitError(status === 400 ? EX_USAGE : EX_REFUSED, [`${detail} (${code})`, ...lines].join("\n"));
}

async function throughApi(given: Given, io: CliEnvironment): Promise<Users> {
  const api = await openApi(given, io, "stepped-up");
  const one = (username: string): string => pathOf("auth", "users", username);
  return {
    async list() {
      type Listed = Omit<Account, "createdAt" | "lastLoginAt"> & {
        readonly createdAt: string;
        readonly lastLoginAt?: string;
      };
      const shape = { username: "text", keys: "list", access: "text", totp: "flag", createdAt: "text" } as const;
      const all = rows<Listed>(await api.ask("GET", "/auth/users"), shape);
      return all.map(({ createdAt, lastLoginAt, ...account }) => ({
        ...account,
        createdAt: Date.parse(createdAt),
        ...(lastLoginAt !== undefined && { lastLoginAt: Date.parse(lastLoginAt) }),
      }));
    },
    add: async (account) => void (await api.ask("POST", "/auth/users", account)),
    remove: async (username) => void (await api.ask("DELETE", one(username))),
    reset: async (username, to) => void (await api.ask("POST", `${one(username)}/reset`, to)),
    beginTotp: async (username) =>
      record<{ readonly uri: string }>(await api.ask("POST", `${one(username)}/totp`), { uri: "text" }),
    async confirmTotp(username, code) {
      type Codes = { readonly recoveryCodes: readonly string[] };
      return record<Codes>(await api.ask("PUT", `${one(username)}/totp`, { code }), { recoveryCodes: "list" });
    },
  };
}
