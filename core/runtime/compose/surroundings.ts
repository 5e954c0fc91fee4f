/** What plug-ins are handed before there are keys and limits: the way out, secret options, the folders. */
import { readFile } from "node:fs/promises";
import { createGuard } from "../../guard/index.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Keys, Route } from "../../ports/plugin.ts";
import { createFetch } from "../fetch.ts";
import type { RelayLog, RelayMetrics } from "../observability/index.ts";
import type { ContextParts } from "../plugin/context.ts";
import { createSecretOptions } from "../secret-options.ts";
import type { SpawnTransforms } from "../transforms/worker.ts";
import { StartError } from "../../model/errors.ts";
import { makeDurableFolder } from "../../ports/folder.ts";

/** What a relay uses of the process around it. */
export interface SetupContext {
  readonly clock: Clock;
  readonly log: RelayLog;
  readonly metrics: RelayMetrics;
  /** Starts processes for the transforms of the config. Without it a config may have none. */
  readonly transforms?: SpawnTransforms;
  /** Makes the routes of the pages that the config asks for. @default there are none */
  readonly pages?: (plan: Plan, firstRun: Auth["firstRun"]) => readonly Route[];
  /** Where secret options are read. @default the process's */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

const refuse = (what: string) => (): never => {
  throw new Error(`a storage is set up before there are ${what}`);
};
const noKeys = refuse("keys");
const NO_KEYS: Keys = { seal: noKeys, open: noKeys, signToken: noKeys, publicJwk: noKeys };

/** @throws StartError when the data folder cannot be made, or the authorities not be read */
export async function openSurroundings(plan: Plan, { env = process.env, clock, log, metrics }: SetupContext) {
  const { dataDir, configDir } = plan;
  makeDataDir(dataDir);
  const secrets = createSecretOptions({ env, configDir }, log.hideWith);
  const { hide } = secrets;
  const { storage, sources, transports, observers, auth } = plan;
  for (const plugin of [storage, ...observers, ...transports, auth, ...sources]) metrics.declare(plugin.metrics ?? []);
  const ca = plan.guard.ca === undefined ? undefined : await readFile(plan.guard.ca, "utf8");
  const guard = createGuard({ ...plan.guard, ca, clock });
  const outbound = createFetch(guard.connect);
  const keys = NO_KEYS;
  const guess = refuse("limits");
  const { connect } = guard;
  const { fetch } = outbound;
  const bare: ContextParts = { clock, log, metrics, connect, fetch, keys, guess, secrets, dataDir, configDir };
  // `hide` masks every secret option of a plug-in in a text; `ca` are PEM certificates that are trusted beside the system's.
  return { guard, ca, hide, bare, close: () => outbound.dispose() };
}

/** Makes the folder (mode 0700), durably; an existing one stays as it is. @throws StartError 78 */
function makeDataDir(dataDir: string): void {
  try {
    makeDurableFolder(dataDir);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown";
    const what = "give a folder that the relay may write to (dataDir, RELAY_DATA_DIR)";
    throw new StartError(78, `the data folder ${dataDir} cannot be made (${code}): ${what}`, { cause });
  }
}
