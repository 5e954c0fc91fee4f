/** Opens the storage without a relay, for commands that work while no relay uses the folder. */
import { makeDurableFolder } from "../../core/ports/folder.ts";
import type { Keys, Log, LogFields, PluginContext } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import {
  contextOf,
  type ContextParts,
  createSecretOptions,
  hasMasterKey,
  loadKeys,
  nullMetrics,
  startOf,
} from "../../core/runtime/offline.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_SOFTWARE, ExitError } from "./exit.ts";
import { printable } from "./output.ts";

/** @throws StartError 75 when a relay uses the folder, 78 when the stored data is not a relay's */
export async function openStorage(plan: Plan, io: CliEnvironment): Promise<Storage> {
  const { storage } = plan;
  return startOf(storage, () => storage.setup(contextOf(storage, surroundings(plan, io, noKeys), undefined)));
}

/** The context of the auth plug-in over an open storage. Missing keys are made, as at a first start. */
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
  const secrets = createSecretOptions({ env, configDir });
  return {
    clock,
    log,
    metrics: nullMetrics,
    connect: nowhere,
    fetch: nowhere,
    keys,
    guess,
    secrets,
    dataDir,
    configDir,
  };
}

const unasked = (): never => {
  throw new ExitError(EX_SOFTWARE, "a storage asked for keys");
};
const noKeys: Keys = { seal: unasked, open: unasked, signToken: unasked, publicJwk: unasked };
