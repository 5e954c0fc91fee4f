/** `memory()` keeps everything in this process, and loses it with it. For tests, trials and data that may be lost. */
import { ConflictError, refuseOptions } from "../../core/model/errors.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { unmet } from "./embedded/conditions.ts";
import { sortedMap } from "./embedded/sorted-map.ts";
import { embeddedProblems } from "./embedded/options.ts";
import { embedded, type EmbeddedOptions } from "./embedded/storage.ts";

/** @param options.window most due lines that wait in the queue. @default 10_000 */
export function memory(options: EmbeddedOptions = {}): Plugin<"storage", Storage> {
  const problems = embeddedProblems(options);
  return {
    kind: "storage",
    name: "memory",
    problems,
    async setup({ clock }) {
      refuseOptions(problems);
      const map = sortedMap();
      return embedded(
        {
          name: "memory",
          durability: "volatile",
          async commit(changes) {
            const keys = unmet(changes, map.get);
            if (keys.length > 0) throw new ConflictError(keys);
            for (const change of changes) {
              if (change.op === "put") map.set(change.key, change.value);
              else if (change.op === "delete") map.delete(change.key);
            }
          },
          getMany: async (keys) => keys.map(map.get),
          range: async (prefix, range) => map.range(prefix, range),
          count: async (prefix) => map.count(prefix),
          status: async () => ({ rows: map.size }),
          close: async () => {},
        },
        clock,
        options,
      );
    },
  };
}
