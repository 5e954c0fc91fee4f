/** Opens the storage without a relay, for commands that work while no relay uses the folder. */
import { existsSync } from "node:fs";
import { StartError } from "../../core/model/errors.ts";
import { FILLING } from "../../core/model/schema.ts";
import { makeDurableFolder } from "../../core/ports/folder.ts";
import type { Keys, Log, LogFields, PluginContext } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import {
  contextOf,
  type ContextParts,
  SecretOptions,
  hasMasterKey,
  loadKeys,
  nullMetrics,
  startOf,
  storedSchema,
} from "../../core/runtime/offline.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_REFUSED, EX_SOFTWARE, EX_TEMPFAIL, EX_UNAVAILABLE, ExitError } from "./exit.ts";
import { printable } from "./output.ts";

/** @throws StartError 75 when a relay uses the folder, 78 when the stored data is not a relay's */
export async function openStorage(plan: Plan, io: CliEnvironment): Promise<Storage> {
  const { storage } = plan;
  return startOf(storage, () => storage.setup(contextOf(storage, surroundings(plan, io, noKeys), undefined)));
}

/** As `open`, but resolves to undefined while a relay uses the storage. */
export async function unlessInUse<T>(open: Promise<T>): Promise<T | undefined> {
  return open.catch((error: unknown) => {
    if (error instanceof StartError && error.exitCode === EX_TEMPFAIL) return undefined;
    throw error;
  });
}

/**
 * Makes no data folder where there is none: a copy of nothing, from the wrong folder, would pass for a good one.
 * @throws StartError 75 when a relay uses it; ExitError 69 when nothing is stored, 1 when it is filled by half
 */
export async function openSource(plan: Plan, io: CliEnvironment): Promise<Storage> {
  refuseMissingFolder(plan);
  const { name } = plan.storage;
  const storage = await openStorage(plan, io);
  try {
    const empty = (await storedSchema(storage)) === 0 && (await storage.range("", { limit: 1 })).length === 0;
    if (empty) throw nothing(`nothing is stored in ${name}, data folder ${plan.dataDir}`);
    if ((await storage.getItem(FILLING)) !== undefined)
      throw new ExitError(
        EX_REFUSED,
        `${name}, which is to be copied, is filled by half: run the restore or migration again to its end`,
      );
    return storage;
  } catch (error) {
    await storage.dispose();
    throw error;
  }
}

const nothing = (why: string): ExitError =>
  new ExitError(EX_UNAVAILABLE, `${why}: name the relay's folder with --data-dir, or its --config`);

/** Opening a storage makes its folder; what only reads must not. @throws ExitError 69 */
export function refuseMissingFolder({ storage, dataDir }: Plan): void {
  if (storage.shared !== true && !existsSync(dataDir)) throw nothing(`there is no data folder ${dataDir}`);
}

/** Returns the context of the auth plug-in over an open storage. Missing keys are made, as at a first start. */
export async function authContext(plan: Plan, io: CliEnvironment, storage: Storage): Promise<PluginContext> {
  const { dataDir, keys: given } = plan;
  const { older } = given;
  const shared = plan.storage.shared === true;
  const claimed = await hasMasterKey(storage);
  const { keys, made } = await loadKeys({ dataDir, given, shared, older, claimed });
  for (const path of made) io.say(`relay: made ${path}`);
  return contextOf(plan.auth, surroundings(plan, io, keys), storage);
}

function surroundings({ dataDir, configDir }: Plan, { clock, say, env }: CliEnvironment, keys: Keys): ContextParts {
  makeDurableFolder(dataDir);
  const loud = (message: string, about: LogFields = {}): void => {
    const facts = Object.entries(about).map(([name, value]) => `${name} ${value}`);
    say(`relay: ${printable([message, facts.join(", ")].filter((part) => part !== "").join(": "))}`);
  };
  const log: Log = { debug: () => undefined, info: () => undefined, warn: loud, error: loud };
  const nowhere = (): Promise<never> => Promise.reject(new Error("a command connects to nothing"));
  const guess = (): Promise<never> => Promise.reject(new Error("a command takes no guesses"));
  const secrets = new SecretOptions({ env, configDir });
  const outside = { connect: nowhere, fetch: nowhere, guess };
  return { clock, log, metrics: nullMetrics, ...outside, keys, secrets, dataDir, configDir };
}

const unasked = (): never => {
  throw new ExitError(EX_SOFTWARE, "a storage asked for keys");
};
const noKeys: Keys = { seal: unasked, open: unasked, signToken: unasked, publicJwk: unasked };
