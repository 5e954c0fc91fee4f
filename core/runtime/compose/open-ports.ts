/** Opens what a relay stands on: folder, keys, guard, storage, then the plug-ins that use them. Closes in reverse order. */
import type { Guard } from "../../guard/index.ts";
import { createLimiter, type Limiter } from "../../limits/limiter.ts";
import { StartError } from "../../model/errors.ts";
import { chooseTransport, twice } from "../../model/transport-choice.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Plugin } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import type { Ed25519Key } from "../../signing/ed25519.ts";
import { wallOf, type Walls } from "../contain/wall.ts";
import { containAuth } from "../contain/auth.ts";
import { createDeadlines } from "../contain/deadlines.ts";
import { createIncidents, type Incidents, type PluginName } from "../contain/incidents.ts";
import { containObserver } from "../contain/observer.ts";
import { inside } from "../contain/owner.ts";
import { containSource, type ContainedSource } from "../contain/source.ts";
import { containStorage } from "../contain/storage.ts";
import { containTransport } from "../contain/transport.ts";
import { adoptEverywhere } from "../keys/adopt-everywhere.ts";
import { loadKeys, type RelayKeys } from "../keys/keyring.ts";
import { loadWebhookKeys } from "../keys/webhook-keys.ts";
import { createRekey, hasMasterKey, ownMasterKey, settleKeyFiles, type Rekey } from "../keys/rekey.ts";
import { contextOf, type ContextParts } from "../plugin-context.ts";
import { startOf, type Starting } from "../plugin-faults.ts";
import { ensureSchema } from "../storage-schema.ts";
import { watchedStorage } from "../storage-watch.ts";
import { isFirst } from "../threads/node-thread.ts";
import type { NamedObserver } from "./observers.ts";
import { openSurroundings, type SetupContext } from "./surroundings.ts";

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
  /** In the order of the plan; `undefined` for one that another thread runs. */
  readonly sources: readonly (ContainedSource | undefined)[];
  readonly observers: readonly NamedObserver[];
  /** The text with every secret option of a plug-in masked. */
  readonly hide: (text: string) => string;
  readonly incidents: Incidents;
  /** For the start of the sources, which comes later. */
  readonly starting: Starting;
}

interface Ports {
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

export function createPorts(plan: Plan, around: SetupContext): Ports {
  const { clock, log, metrics, thread } = around;
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
      const { dataDir } = plan;
      const { guard, ca, bare, hide, close } = await openSurroundings(plan, around);
      closing.unshift(close);
      const starting = { hide, clock, log };
      const keeper = plan.storage;
      const walls = { clock, incidents, deadlines: createDeadlines(clock) };
      const own = (): Promise<Storage> | Storage => keeper.setup(contextOf(keeper, bare, undefined));
      // Within the step, so that whatever it throws while it is looked at is its own fault, too.
      const setUp = async (): Promise<Storage> => containStorage(await inside(keeper)(own), keeper, walls);
      const storage = watchedStorage(await startOf(keeper, setUp, starting), clock, metrics);
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
      const open = <Port, Contained>(
        plugin: Plugin<string, Port>,
        contain: (port: Port, plugin: PluginName, walls: Walls) => Contained,
      ): Promise<Contained> => {
        const own = (): Promise<Port> | Port => plugin.setup(contextOf(plugin, surroundings, storage));
        const step = async (): Promise<Contained> => contain(await inside(plugin)(own), plugin, walls);
        return startOf(plugin, step, { ...starting, mostMs: START_MS });
      };

      const observers: NamedObserver[] = [];
      for (const plugin of plan.observers) {
        const observer = await open(plugin, containObserver);
        letGo(plugin, () => observer.dispose?.());
        observers.push({ name: plugin.name, observer });
      }
      const transports: Transport[] = [];
      for (const plugin of plan.transports) {
        const transport = await open(plugin, (opened, ...rest) => containTransport(opened, ...rest, hide));
        letGo(plugin, () => transport.dispose());
        transports.push(transport);
      }
      const both = twice(transports);
      if (both !== undefined)
        throw new StartError(78, `transports: two plug-ins serve ${both}; give each a name of its own`);
      const transportOf = chooseTransport(transports);
      for (const [i, { url }] of plan.notify.to.entries()) {
        const why = transportOf(url);
        if (typeof why === "string") throw new StartError(78, `notify.to[${i}].url: ${why}`);
      }
      const auth = await open(plan.auth, containAuth);
      letGo(plan.auth, () => auth.dispose?.());
      const others =
        keyFiles === undefined || thread === undefined ? undefined : await adoptEverywhere(keys, storage, keyFiles);
      const rekey = createRekey({ clock, log, keys, storage, auth, dataDir: keyFiles, others });
      closing.unshift(() => rekey.stop());
      const sources: (ContainedSource | undefined)[] = [];
      for (const plugin of plan.sources) {
        const source = await open(plugin, containSource);
        // Routes are served by every thread; a source without any takes events in once in a process.
        const here = isFirst(thread) || source.routes !== undefined;
        if (!here) await source.stop();
        sources.push(here ? source : undefined);
      }
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
