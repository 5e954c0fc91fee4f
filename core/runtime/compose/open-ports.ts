/** Opens what a relay stands on: folder, keys, guard, storage, then the plug-ins that use them. Closes in reverse order. */
import { readFile } from "node:fs/promises";
import { createGuard, type Guard } from "../../guard/index.ts";
import { createLimiter, type Limiter } from "../../limits/limiter.ts";
import { StartError } from "../../model/errors.ts";
import { twice } from "../../model/transport-choice.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Keys, Plugin } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import type { Ed25519Key } from "../../signing/ed25519.ts";
import { wallOf } from "../contain/around.ts";
import { containAuth } from "../contain/auth.ts";
import { createDeadlines } from "../contain/deadlines.ts";
import { createIncidents, type Incidents, type PluginName } from "../contain/incidents.ts";
import { containObserver } from "../contain/observer.ts";
import { inside } from "../contain/owner.ts";
import { containSource, type ContainedSource } from "../contain/source.ts";
import { containTransport } from "../contain/transport.ts";
import { makeDataDir } from "../data-dir.ts";
import { createFetch } from "../fetch.ts";
import { loadKeys, type RelayKeys } from "../keys/keyring.ts";
import { loadWebhookKeys } from "../keys/webhook-keys.ts";
import { createRekey, hasMasterKey, ownMasterKey, settleKeyFiles, type Rekey } from "../keys/rekey.ts";
import type { RelayLog, RelayMetrics } from "../observability/index.ts";
import { contextOf, type ContextParts } from "../plugin-context.ts";
import { startOf, type Starting } from "../plugin-faults.ts";
import { createSecretOptions } from "../secret-options.ts";
import { ensureSchema } from "../storage-schema.ts";
import { watchedStorage } from "../storage-watch.ts";
import type { NamedObserver } from "./observers.ts";

/** What a relay uses of the process around it. */
export interface SetupContext {
  readonly clock: Clock;
  readonly log: RelayLog;
  readonly metrics: RelayMetrics;
  /** Where secret options are read. @default the process's */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** What is open after a start. */
export interface OpenPorts {
  readonly guard: Guard;
  /** PEM certificates that are trusted beside the system's. */
  readonly ca: string | undefined;
  readonly storage: Storage;
  readonly keys: RelayKeys;
  /** Keys that sign deliveries with Ed25519; `undefined` where the config asks for none. */
  readonly webhookKeys: readonly Ed25519Key[] | undefined;
  /** Key files made at this start, by path. */
  readonly made: readonly string[];
  readonly limiter: Limiter;
  readonly transports: readonly Transport[];
  readonly auth: Auth;
  readonly rekey: Rekey;
  readonly sources: readonly ContainedSource[];
  readonly observers: readonly NamedObserver[];
  /** The text with every secret option of a plug-in masked. */
  readonly hide: (text: string) => string;
  readonly incidents: Incidents;
  /** For the start of the sources, which comes later. */
  readonly starting: Starting;
}

const refuse = (what: string) => (): never => {
  throw new Error(`a storage is set up before there are ${what}`);
};
const noKeys = refuse("keys");
const NO_KEYS: Keys = { seal: noKeys, open: noKeys, signToken: noKeys, publicJwk: noKeys };

export interface Ports {
  /** What plug-ins do wrong, from the first setup on. */
  readonly incidents: Incidents;
  /** @throws StartError, or what a plug-in throws; then `close` closes what was opened until then */
  open(): Promise<OpenPorts>;
  /** Closes what is open, the last one first. One that fails does not keep the others open. @throws the first failure */
  close(graceMs: number): Promise<void>;
}

/** Longest start of a plug-in other than the storage, which may have much to repair. */
const START_MS = 120_000;
/** Least time that a plug-in gets to let go. */
const LEAST_MS = 50;

export function createPorts(plan: Plan, { env = process.env, ...around }: SetupContext): Ports {
  const { clock, log, metrics } = around;
  const closing: (() => Promise<unknown> | undefined)[] = [];
  const incidents = createIncidents(around);
  /** Monotonic time until which plug-ins may take to let go: the other half of the grace is the storage's. */
  let until = Infinity;
  /** A plug-in that does not let go keeps neither the others nor the storage open. */
  function letGo(plugin: PluginName, dispose: () => unknown): void {
    const { end } = wallOf(plugin, { clock, incidents, deadlines: createDeadlines(clock) });
    closing.unshift(() => end("dispose", Math.max(LEAST_MS, (until - clock.monotonic()) / 2), dispose));
  }
  return {
    incidents,
    async open() {
      const { dataDir, configDir } = plan;
      makeDataDir(dataDir);
      const secrets = createSecretOptions({ env, configDir });
      const { hide } = secrets;
      const starting = { hide, clock, log };
      log.hideWith(hide);
      const { storage: keeper, sources: takers, transports: senders, observers: watchers } = plan;
      for (const plugin of [keeper, ...watchers, ...senders, plan.auth, ...takers])
        metrics.declare(plugin.metrics ?? []);
      const ca = plan.guard.ca === undefined ? undefined : await readFile(plan.guard.ca, "utf8");
      const guard = createGuard({ ...plan.guard, ca, clock });
      const outbound = createFetch(guard.connect);
      closing.unshift(() => outbound.dispose());

      const bare: ContextParts = {
        ...around,
        connect: guard.connect,
        fetch: outbound.fetch,
        keys: NO_KEYS,
        guess: refuse("limits"),
        secrets,
        dataDir,
        configDir,
      };
      const opened = await startOf(keeper, () => keeper.setup(contextOf(keeper, bare, undefined)), starting);
      const storage = watchedStorage(opened, clock, metrics);
      closing.unshift(() => storage.dispose());
      await ensureSchema(storage);

      // After the storage, which says whether a key may be made.
      const { older } = plan.keys;
      const shared = plan.storage.shared === true;
      const claimed = await hasMasterKey(storage);
      const { keys, made } = await loadKeys({ dataDir, given: plan.keys, shared, older, claimed });
      const webhook = plan.signature.ed25519 ? await loadWebhookKeys(dataDir, plan.keys) : undefined;
      const keyFiles = plan.keys.master === undefined ? dataDir : undefined;
      await ownMasterKey(storage, keys, log);
      await settleKeyFiles(keys, storage, keyFiles);

      const { counters } = storage;
      const limiter = createLimiter({ counters, rows: plan.limits, abuse: plan.abuse, clock, storage, log, metrics });
      const surroundings: ContextParts = { ...bare, keys, guess: limiter.guess, publishToken: keys.publishToken };
      const open = <Port>(plugin: Plugin<string, Port>): Promise<Port> => {
        const own = (): Promise<Port> | Port => plugin.setup(contextOf(plugin, surroundings, storage));
        return startOf(plugin, () => inside(plugin)(own), { ...starting, mostMs: START_MS });
      };
      const walls = { clock, incidents, deadlines: createDeadlines(clock) };

      const observers: NamedObserver[] = [];
      for (const plugin of plan.observers) {
        const observer = containObserver(await open(plugin), plugin, walls);
        letGo(plugin, () => observer.dispose?.());
        observers.push({ name: plugin.name, observer });
      }
      const transports: Transport[] = [];
      for (const plugin of plan.transports) {
        const transport = containTransport(await open(plugin), plugin, walls, hide);
        letGo(plugin, () => transport.dispose());
        transports.push(transport);
      }
      const both = twice(transports);
      if (both !== undefined)
        throw new StartError(78, `transports: two plug-ins serve ${both}; give each a name of its own`);
      const auth = containAuth(await open(plan.auth), plan.auth, walls);
      letGo(plan.auth, () => auth.dispose?.());
      const rekey = createRekey({ ...around, keys, storage, auth, dataDir: keyFiles });
      closing.unshift(() => rekey.stop());
      const sources: ContainedSource[] = [];
      for (const plugin of plan.sources) sources.push(containSource(await open(plugin), plugin, walls));
      return {
        guard,
        ca,
        storage,
        keys,
        webhookKeys: webhook?.keys,
        made: [...made, ...(webhook?.made ?? [])],
        limiter,
        transports,
        auth,
        rekey,
        sources,
        observers,
        hide,
        incidents,
        starting: { ...starting, mostMs: START_MS },
      };
    },
    async close(graceMs) {
      until = clock.monotonic() + graceMs / 2;
      const results = [];
      for (const close of closing.splice(0)) results.push(await Promise.allSettled([close()]));
      const failed = results.flat().find((result) => result.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    },
  };
}
