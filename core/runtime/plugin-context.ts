/** Builds what each plug-in is handed: its surroundings, and a part of the storage that is its own. */
import { createAuditTrail, type AuditTrail } from "../records/audit-trail.ts";
import { pluginPrefix } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Connect, Guess, Keys, Log, Metrics, Plugin, PluginContext, ScopedStorage } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { createSecretOptions, type SecretOptions } from "./secret-options.ts";

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
export function scoped(
  storage: Pick<Storage, "getItem" | "range" | "commit">,
  prefix: string,
  trail: Pick<AuditTrail, "lines">,
): ScopedStorage {
  const inside = (change: Change): Change => ({ ...change, key: prefix + change.key });
  return {
    getItem: (key) => storage.getItem(prefix + key),
    async range(under, options = {}) {
      const after = options.after === undefined ? undefined : prefix + options.after;
      const entries = await storage.range(prefix + under, { ...options, after });
      return entries.map(({ key, value }) => ({ key: key.slice(prefix.length), value }));
    },
    commit: (changes, audit = []) => storage.commit([...changes.map(inside), ...audit.flatMap(trail.lines)]),
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
  return {
    ...around,
    secret: (secrets ?? createSecretOptions({ env: process.env, configDir: around.configDir })).of(plugin),
    refused: async (entry, alike) => trail?.refused(entry, alike),
    get storage() {
      if (storage === undefined || trail === undefined) throw new Error("the storage is not set up yet");
      return scoped(storage, pluginPrefix(plugin.kind, plugin.name), trail);
    },
  };
}
