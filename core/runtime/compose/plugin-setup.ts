/** Opening: keys, guard, storage, then the plug-ins that use them; and closing, the other way round. */
import { readFile } from "node:fs/promises";
import { createGuard } from "../../guard/index.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Keys } from "../../ports/plugin.ts";
import { contextOf, type ContextParts } from "../plugin-context.ts";
import { startOf } from "../plugin-faults.ts";
import { makeDataDir } from "../data-dir.ts";
import { registerGateway, LIMITER } from "./gateway.ts";
import { loadKeys } from "../keys/keyring.ts";
import type { Step } from "../lifecycle.ts";
import type { RelayLog, RelayMetrics } from "../observability/index.ts";
import { createFetch } from "../fetch.ts";
import * as path from "./delivery-path.ts";
import type { Plan } from "../../ports/plan.ts";
import { createRekey, hasMasterKey, ownMasterKey, REKEY, settleKeyFiles } from "../keys/rekey.ts";
import { ensureSchema } from "../storage-schema.ts";
import { watchedStorage } from "../storage-watch.ts";
import { AUTH, SOURCES } from "./routes.ts";
import { openTelemetry, TELEMETRY, type TraceSettings } from "./telemetry.ts";
import type { Container } from "./container.ts";

/** What a relay uses of the process around it. */
export interface SetupContext {
  readonly clock: Clock;
  readonly log: RelayLog;
  readonly metrics: RelayMetrics;
  /** Where traces go. @default nowhere */
  readonly traces?: TraceSettings;
}

/** A storage has no use for keys, and is open before them. */
const none = (): never => {
  throw new Error("a storage has no keys");
};
const NO_KEYS: Keys = { seal: none, open: none, signToken: none, publicJwk: none };

/** For traces that have not left yet when everything else has stopped. */
const FLUSH_MS = 500;

/** Keys, guard, storage, then the plug-ins that use them. */
export function setUpPlugins(
  plan: Plan,
  house: Container,
  around: SetupContext,
  tell: (made: readonly string[]) => void,
): Step {
  const closing: (() => Promise<unknown> | undefined)[] = [];
  return {
    name: "ports",
    async start() {
      const { dataDir, configDir } = plan;
      makeDataDir(dataDir);
      const ca = plan.guard.ca === undefined ? undefined : await readFile(plan.guard.ca, "utf8");
      const guard = createGuard({ ...plan.guard, ca, clock: around.clock });
      const outbound = createFetch(guard.connect);
      closing.unshift(() => outbound.dispose());
      const telemetry = await openTelemetry(around.traces, { ...around, fetch: outbound.fetch });
      closing.unshift(() => telemetry.close(FLUSH_MS));
      house.put(TELEMETRY, telemetry);
      const bare: Omit<ContextParts, "publishToken"> = {
        ...around,
        connect: guard.connect,
        fetch: outbound.fetch,
        keys: NO_KEYS,
        guess: (place, who, attempt) => house.get(LIMITER).guess(place, who, attempt),
        dataDir,
        configDir,
      };
      house.put(path.OUTBOUND_GUARD, guard);
      registerGateway(house, plan, ca);

      // Before the keys: whether a key may be made is for the storage to say.
      const opened = await startOf(plan.storage, () => plan.storage.setup(contextOf(plan.storage, bare, undefined)));
      const storage = watchedStorage(opened, around.clock, around.metrics);
      closing.unshift(() => storage.dispose());
      await ensureSchema(storage);
      const { older } = plan.keys;
      const shared = plan.storage.shared === true;
      const claimed = await hasMasterKey(storage);
      const { keys, made } = await loadKeys({ dataDir, given: plan.keys, shared, older, claimed });
      const keyFiles = plan.keys.master === undefined ? dataDir : undefined;
      tell(made);
      house.put(path.KEYS, keys);
      const surroundings: ContextParts = { ...bare, keys, publishToken: keys.publishToken };
      await ownMasterKey(storage, keys, around.log);
      await settleKeyFiles(keys, storage, keyFiles);
      house.put(path.STORAGE, storage);

      const transports = [];
      for (const plugin of plan.transports) {
        const transport = await startOf(plugin, () => plugin.setup(contextOf(plugin, surroundings, storage)));
        closing.unshift(() => transport.dispose());
        transports.push(transport);
      }
      house.put(path.TRANSPORTS, transports);
      const auth = await startOf(plan.auth, () => plan.auth.setup(contextOf(plan.auth, surroundings, storage)));
      closing.unshift(() => auth.dispose?.());
      house.put(AUTH, auth);
      const rekey = createRekey({ ...around, keys, storage, auth, dataDir: keyFiles });
      closing.unshift(() => rekey.stop());
      house.put(REKEY, rekey);
      const sources = [];
      for (const plugin of plan.sources)
        sources.push(await startOf(plugin, () => plugin.setup(contextOf(plugin, surroundings, storage))));
      house.put(SOURCES, sources);
    },
    async stop() {
      // Last opened, first closed; one that fails does not keep the others open.
      const results = [];
      for (const close of closing.splice(0)) results.push(await Promise.allSettled([close()]));
      const failed = results.flat().find((result) => result.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    },
  };
}
