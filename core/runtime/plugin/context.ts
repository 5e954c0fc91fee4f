/** Builds what each plug-in is handed: its surroundings, and a part of the storage that is its own. */
import { createAuditTrail, type AuditTrail } from "../../records/audit-trail.ts";
import type { AuditEntry } from "../../model/audit.ts";
import { PLUGIN } from "../../model/schema.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Connect, Guess, Keys, Log, Metrics, Plugin, PluginContext, ScopedStorage } from "../../ports/plugin.ts";
import type { Change, Storage } from "../../ports/storage.ts";
import { SecretOptions } from "../secret-options.ts";

export interface ContextParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly connect: Connect;
  readonly fetch: PluginContext["fetch"];
  readonly keys: Keys;
  readonly guess: Guess;
  /** @default reads the process's environment, and hides nothing elsewhere */
  readonly secrets?: SecretOptions;
  readonly publishToken?: string;
  readonly dataDir: string;
  readonly configDir: string;
}

/** The storage under a prefix of its own. Audit entries of a commit are stored with it. */
function scoped(
  storage: Pick<Storage, "getItem" | "range" | "commit">,
  prefix: string,
  trail: Pick<AuditTrail, "lines">,
): ScopedStorage {
  const under = (change: Change): Change => ({ ...change, key: prefix + change.key });
  return {
    getItem: (key) => storage.getItem(prefix + key),
    async range(from, options = {}) {
      const after = options.after === undefined ? undefined : prefix + options.after;
      const entries = await storage.range(prefix + from, { ...options, after });
      return entries.map(({ key, value }) => ({ key: key.slice(prefix.length), value }));
    },
    commit: (changes, audit = []) => storage.commit([...changes.map(under), ...audit.flatMap(trail.lines)]),
  };
}

/**
 * @param storage `undefined` while the storage itself is being set up
 * @throws StartError 78 when a secret option cannot be read
 */
export function contextOf(
  plugin: Pick<Plugin<string, unknown>, "kind" | "name" | "secrets">,
  { secrets, ...around }: ContextParts,
  storage: Storage | undefined,
): PluginContext {
  const trail = storage && createAuditTrail({ ...around, storage });
  const secret = (secrets ?? new SecretOptions({ env: process.env, configDir: around.configDir })).of(plugin);
  // Each plug-in has objects of its own, and they are frozen: none can replace what another one calls.
  return Object.freeze({
    ...around,
    clock: narrowed(around.clock, ["now", "monotonic", "sleep"]),
    log: narrowed(around.log, ["debug", "info", "warn", "error"]),
    metrics: narrowed(around.metrics, ["count", "gauge", "observe"]),
    keys: narrowed(around.keys, ["seal", "open", "signToken", "publicJwk"]),
    secret,
    refused: async (entry: AuditEntry, alike: string) => trail?.refused(entry, alike),
    get storage() {
      if (storage === undefined || trail === undefined) throw new Error("the storage is not set up yet");
      return Object.freeze(scoped(storage, PLUGIN.under(plugin), trail));
    },
  });
}

/** A frozen object with these methods of `of`, and nothing else of it. */
function narrowed<T extends object, Name extends keyof T>(of: T, names: readonly Name[]): Pick<T, Name> {
  const methods = names.map((name) => [name, (of[name] as (...args: unknown[]) => unknown).bind(of)] as const);
  return Object.freeze(Object.fromEntries(methods)) as Pick<T, Name>;
}
