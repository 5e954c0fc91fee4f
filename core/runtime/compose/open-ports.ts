/** Opens what a relay stands on: folder, keys, guard, storage, then the plug-ins that use them. Closes in reverse order. */
import { readFile } from "node:fs/promises";
import { createGuard } from "../../guard/index.ts";
import { Limiter } from "../../limits/limiter.ts";
import { StartError } from "../../model/errors.ts";
import { chooseTransport, twice } from "../../model/transport-choice.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import { makeDurableFolder } from "../../ports/folder.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Observer } from "../../ports/observer.ts";
import type { Keys, Log, Plugin, Route } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import { createFetch } from "../fetch.ts";
import { loadKeys } from "../keys/keyring.ts";
import { loadWebhookKeys } from "../keys/webhook-keys.ts";
import { Rekey, hasMasterKey, ownMasterKey, settleKeyFiles } from "../keys/rekey.ts";
import type { RelayLog, RelayMetrics } from "../observability/index.ts";
import { contextOf, type ContextParts } from "../plugin/context.ts";
import { Incidents } from "../plugin/incidents.ts";
import { startOf } from "../plugin/start.ts";
import { createWalls, type Wall } from "../plugin/wall.ts";
import * as walled from "../plugin/walled.ts";
import { SecretOptions } from "../secret-options.ts";
import type { SpawnTransforms } from "../transforms/worker.ts";
import { ensureSchema } from "../storage-schema.ts";
import { watchedStorage } from "../storage-watch.ts";

/** Longest start of a plug-in other than the storage, which may have much to repair. */
const START_MS = 120_000;
/** Least time that a plug-in gets to let go. */
const LEAST_MS = 50;

/** Parts of the process that a relay uses. */
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

/** The ports that are open after a start. */
export type OpenPorts = Awaited<ReturnType<typeof openPorts>>;

/** Closes what is open, the last one first. */
export class Closing {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #open: (() => Promise<unknown> | undefined)[] = [];
  /** Monotonic time until which plug-ins may take to let go: the other half of the grace is the storage's. */
  #until = Infinity;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  add(close: () => Promise<unknown> | undefined): void {
    this.#open.unshift(close);
  }

  /** A plug-in that does not let go keeps neither the others nor the storage open. */
  addPlugin(wall: Wall, dispose: () => unknown): void {
    const leftMs = (): number => Math.max(LEAST_MS, (this.#until - this.#clock.monotonic()) / 2);
    this.add(() => wall.end("dispose", leftMs(), dispose));
  }

  /** One that fails does not keep the others open. @throws the first failure */
  async close(graceMs: number): Promise<void> {
    this.#until = this.#clock.monotonic() + graceMs / 2;
    const results = [];
    for (const close of this.#open.splice(0)) results.push(await Promise.allSettled([close()]));
    const failed = results.flat().find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }
}

/**
 * @param closing closes what was opened, also where not all of it could be
 * @throws StartError, or what a plug-in throws
 */
export async function openPorts(plan: Plan, around: SetupContext, closing: Closing) {
  const { clock, log, metrics } = around;
  const incidents = new Incidents(around);
  const wallOf = createWalls(clock, incidents);
  const { guard, ca, bare, hide, close } = await openSurroundings(plan, around);
  closing.add(close);
  const starting = { hide, clock, log };
  const keeper = plan.storage;
  // Within the step, so that whatever it throws while it is read is its own fault, too.
  const setUp = async (): Promise<Storage> =>
    walled.walledStorage(await keeper.setup(contextOf(keeper, bare, undefined)), wallOf(keeper));
  const { storage, trouble } = watchedStorage(await startOf(keeper, setUp, starting), clock, metrics);
  closing.add(() => storage.dispose());
  await ensureSchema(storage);

  // After the storage, which says whether a key may be made.
  const { keys, webhookKeys, made, keyFiles } = await openKeys(plan, storage, log);
  const { counters } = storage;
  const limiter = new Limiter({ counters, rows: plan.limits, abuse: plan.abuse, clock, storage, log, metrics });
  const surroundings: ContextParts = { ...bare, keys, guess: limiter.guess, publishToken: keys.publishToken };
  const pluginStarting = { ...starting, mostMs: START_MS };
  async function open<Port, Walled>(
    plugin: Plugin<string, Port>,
    wallIn: (port: Port, wall: Wall) => Walled,
    dispose?: (opened: Walled) => unknown,
  ): Promise<Walled> {
    const wall = wallOf(plugin);
    const setUpOne = async () => wallIn(await plugin.setup(contextOf(plugin, surroundings, storage)), wall);
    const opened = await startOf(plugin, setUpOne, pluginStarting);
    if (dispose !== undefined) closing.addPlugin(wall, () => dispose(opened));
    return opened;
  }

  const observers: Observer[] = [];
  for (const plugin of plan.observers)
    observers.push(await open(plugin, walled.walledObserver, (observer) => observer.dispose?.()));
  const transports: Transport[] = [];
  for (const plugin of plan.transports)
    transports.push(await open(plugin, walled.walledTransport, (transport) => transport.dispose()));
  checkSchemes(plan, transports);
  const auth = await open(plan.auth, walled.walledAuth, (one) => one.dispose?.());
  const rekey = new Rekey({ clock, log, keys, storage, auth, dataDir: keyFiles });
  closing.add(() => rekey.stop());
  const sources: walled.StoppedSource[] = [];
  for (const plugin of plan.sources) sources.push(await open(plugin, walled.walledSource));
  const opened = { guard, ca, storage, keys, webhookKeys, made, limiter, transports, auth, rekey, sources, observers };
  return { ...opened, trouble, hide, incidents, starting: pluginStarting };
}

const refuse = (what: string) => (): never => {
  throw new Error(`a storage is set up before there are ${what}`);
};
const noKeys = refuse("keys");
const NO_KEYS: Keys = { seal: noKeys, open: noKeys, signToken: noKeys, publicJwk: noKeys };

/** @throws StartError when the data folder cannot be made, or the authorities not be read */
async function openSurroundings(plan: Plan, { env = process.env, clock, log, metrics }: SetupContext) {
  const { dataDir, configDir } = plan;
  makeDataDir(dataDir);
  const secrets = new SecretOptions({ env, configDir }, log.hideWith);
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

/** Loads the keys, and makes those that are missing. @returns the key files that were made too, and the folder of files */
async function openKeys(plan: Plan, storage: Storage, log: Log) {
  const { dataDir } = plan;
  const { older } = plan.keys;
  const shared = plan.storage.shared === true;
  const claimed = await hasMasterKey(storage);
  const { keys, made } = await loadKeys({ dataDir, given: plan.keys, shared, older, claimed });
  const webhook = plan.signature.ed25519 ? await loadWebhookKeys(dataDir, plan.keys) : undefined;
  const keyFiles = plan.keys.master === undefined ? dataDir : undefined;
  await ownMasterKey(storage, keys, log);
  await settleKeyFiles(keys, storage, keyFiles);
  return { keys, webhookKeys: webhook?.keys, made: [...made, ...(webhook?.made ?? [])], keyFiles };
}

/** @throws StartError 78 when two transports serve a scheme, or none serves a target of the operator's */
function checkSchemes({ notify }: Plan, transports: readonly Transport[]): void {
  const both = twice(transports);
  if (both !== undefined)
    throw new StartError(78, `transports: two plug-ins serve ${both}; give each a name of its own`);
  const transportOf = chooseTransport(transports);
  for (const [i, { url }] of notify.to.entries()) {
    const why = transportOf(url);
    if (typeof why === "string") throw new StartError(78, `notify.to[${i}].url: ${why}`);
  }
}
