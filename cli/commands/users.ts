/** `relay users …`: manages the accounts of `accounts()`, in the storage while no relay uses it, else through the API. */
import { randomBytes } from "node:crypto";
import { isoTime } from "../../core/lib/time.ts";
import { Problem } from "../../core/model/problem.ts";
import type { Account, AccountKeeper, Users } from "../../core/ports/auth.ts";
import type { Plan } from "../../core/ports/plan.ts";
import { each, pathOf, shaped } from "../support/ask.ts";
import { namesRelay, openApi } from "../support/client.ts";
import {
  ACCESS_OPTION,
  API_OPTIONS,
  type Command,
  type Given,
  JSON_OPTION,
  loadFor,
  type Options,
  readAccess,
} from "../support/command.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_CONFIG, EX_REFUSED, EX_USAGE, ExitError } from "../support/exit.ts";
import { readSecretText } from "../support/inputs.ts";
import { json, printable, printTable } from "../support/output.ts";
import { atEnd } from "../support/signals.ts";

const COMMON: Options = { ...JSON_OPTION, ...API_OPTIONS };
const PASSWORD: Options = {
  "--password <file>": "@file, - for stdin, or env:NAME (a fresh one is made and printed)",
};

const list: Command = {
  usage: "users list",
  about: "list the accounts",
  options: COMMON,
  run: (given, io) =>
    withUsers(given, io, async (users) => {
      const all = (await users.list()).map(shown);
      if (given.flag("json")) return io.print(json(all));
      if (all.length === 0) return io.say("relay: there are no accounts");
      const cells = all.map(({ username, damaged, keys, access, totp: factor, createdAt, lastLoginAt = "never" }) => [
        damaged === true ? `${username} (damaged)` : username,
        ...[keys.join(","), access, factor ? "yes" : "no", createdAt, lastLoginAt],
      ]);
      io.print(printTable(["user", "keys", "access", "second factor", "created", "last login"], cells));
    }),
};

const add: Command = {
  usage: "users add <name>",
  about: "make an account",
  options: { "--keys <keys>": "ids of the API keys it owns (all)", ...ACCESS_OPTION, ...PASSWORD, ...COMMON },
  examples: ["relay users add alice", 'printf %s "$PASSWORD" | relay users add alice --password -'],
  async run(given, io) {
    const [username = ""] = given.args;
    const keys = given.list("keys") ?? ["*"];
    const access = readAccess(given) ?? "manage";
    const chosen = await readPassword(given, io);
    const password = chosen ?? fresh();
    const make = async (users: Users): Promise<void> => {
      await users.add({ username, password, keys, access });
      sayDone(given, io, "made", chosen === undefined ? password : undefined);
    };
    // An account may be made before the first start.
    await withUsers(given, io, make, "made");
  },
};

const remove: Command = {
  usage: "users remove <name>",
  about: "remove an account and end its sessions",
  options: COMMON,
  run: (given, io) =>
    withUsers(given, io, async (users) => {
      await users.remove(given.args[0] ?? "");
      sayDone(given, io, "removed");
    }),
};

const reset: Command = {
  usage: "users reset <name>",
  about: "change an account (a new password, unless another option says what) and end its sessions",
  options: {
    "--totp-off": "take its second factor off; the password stays unless one is given",
    ...ACCESS_OPTION,
    ...PASSWORD,
    ...COMMON,
  },
  async run(given, io) {
    const totpOff = given.flag("totp-off");
    const chosen = await readPassword(given, io);
    const access = readAccess(given);
    const password = chosen ?? (totpOff || access !== undefined ? undefined : fresh());
    await withUsers(given, io, async (users) => {
      await users.reset(given.args[0] ?? "", {
        ...(password !== undefined && { password }),
        ...(totpOff && { totp: false as const }),
        ...(access !== undefined && { access }),
      });
      sayDone(given, io, "reset", chosen === undefined ? password : undefined);
    });
  },
};

const totp: Command = {
  usage: "users totp <name>",
  about: "give an account a second factor: shows its QR code; then again with --code",
  options: { "--code <code>": "the first code of the authenticator app: turns it on", ...COMMON },
  run: (given, io) =>
    withUsers(given, io, async (users) => {
      const [username = ""] = given.args;
      const code = given.text("code");
      if (code !== undefined) {
        const { recoveryCodes } = await users.confirmTotp(username, code);
        io.say(`relay: the second factor of ${printable(username)} is on; these codes replace it once each:`);
        io.print(given.flag("json") ? json({ username, recoveryCodes }) : recoveryCodes.join("\n"));
        return;
      }
      const { uri } = await users.beginTotp(username);
      if (given.flag("json")) return io.print(json({ username, uri }));
      if (io.stdout.isTTY) {
        const { renderUnicodeCompact } = await import("uqr");
        io.print(renderUnicodeCompact(uri, { border: 2 }));
      }
      io.print(uri);
      io.say(`relay: scan it, then: relay users totp ${printable(username)} --code <code>`);
    }),
};

const fresh = (): string => randomBytes(18).toString("base64url");
const shown = ({ createdAt, lastLoginAt, ...account }: Account) => ({
  ...account,
  createdAt: isoTime(createdAt),
  ...(lastLoginAt !== undefined && { lastLoginAt: isoTime(lastLoginAt) }),
});

/** Says on stderr what was done, and prints a generated password on stdout. */
function sayDone(given: Given, io: CliEnvironment, done: string, password?: string): void {
  const [username = ""] = given.args;
  io.say(`relay: ${done} the account ${printable(username)}`);
  if (given.flag("json")) io.print(json({ username, done, password }));
  else if (password !== undefined) io.print(password);
}

async function readPassword(given: Given, io: CliEnvironment): Promise<string | undefined> {
  const from = given.text("password");
  return from && (await readSecretText("password", from, io)).replace(/\r?\n$/, "");
}

/**
 * Runs `use` with the accounts.
 * @param folder `"made"`: where there is no data folder, it is made with its keys; else that is an error. @default "there"
 * @throws ExitError, StartError
 */
async function withUsers(
  given: Given,
  io: CliEnvironment,
  use: (users: Users) => Promise<void>,
  folder: "made" | "there" = "there",
): Promise<void> {
  if (namesRelay(given, io) || !(await useStorage(given, io, use, folder))) await use(await throughApi(given, io));
}

/** @returns false while a relay uses the storage: then the API is asked */
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
  const { authContext, openStorage, refuseMissingFolder, unlessInUse } = await import("../support/offline.ts");
  if (folder === "there") refuseMissingFolder(plan);
  const storage = await unlessInUse(openStorage(plan, io));
  if (storage === undefined) return false;
  await using _ = atEnd(() => storage.dispose());
  try {
    await use(keeper.users(await authContext(plan, io, storage)));
  } catch (error) {
    throw error instanceof Problem ? refusal(error) : error;
  }
  return true;
}

const keeperOf = ({ auth }: Plan): AccountKeeper | undefined =>
  "users" in auth && typeof auth.users === "function" ? (auth as Plan["auth"] & AccountKeeper) : undefined;

function refusal({ code, detail, extras, status }: Problem): ExitError {
  const lines = (extras.errors ?? []).map(({ path, message }) => `  ${path === "" ? "" : `${path}: `}${message}`);
  return new ExitError(status === 400 ? EX_USAGE : EX_REFUSED, [`${detail} (${code})`, ...lines].join("\n"));
}

const LISTED = {
  ...each("text", "username", "access", "createdAt", "lastLoginAt?"),
  ...each(["text"], "keys"),
  ...each("flag", "totp"),
};

async function throughApi(given: Given, io: CliEnvironment): Promise<Users> {
  const api = await openApi(given, io, "stepped-up");
  const one = (username: string): string => pathOf("auth", "users", username);
  return {
    async list() {
      const all = shaped(await api.ask("GET", "/auth/users"), [LISTED]);
      return all.map(({ createdAt, lastLoginAt, access, ...account }) => ({
        ...account,
        access: access as Account["access"],
        createdAt: Date.parse(createdAt),
        ...(lastLoginAt !== undefined && { lastLoginAt: Date.parse(lastLoginAt) }),
      }));
    },
    add: async (account) => void (await api.ask("POST", "/auth/users", account)),
    remove: async (username) => void (await api.ask("DELETE", one(username))),
    reset: async (username, to) => void (await api.ask("POST", `${one(username)}/reset`, to)),
    beginTotp: async (username) => shaped(await api.ask("POST", `${one(username)}/totp`), { uri: "text" }),
    confirmTotp: async (username, code) =>
      shaped(await api.ask("PUT", `${one(username)}/totp`, { code }), { recoveryCodes: ["text"] }),
  };
}

export const commands: readonly Command[] = [list, add, remove, reset, totp];
