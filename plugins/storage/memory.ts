/** `memory()` keeps everything in this process, and loses it with it. For tests, trials and data that may be lost. */
import { optionProblems } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { sortedMap } from "./embedded/sorted-map.ts";
import { embedded, WINDOW, type EmbeddedOptions } from "./embedded/storage.ts";
import type { ItemForm } from "./unstorage/items.ts";
import { Store } from "./unstorage/store.ts";

/** The driver keeps keys and texts as they are. */
const PLAIN: ItemForm = { name: (key) => key, text: (_, value) => value, value: (_, item) => item as string };

/** @param options.window most due lines that wait in the queue. @default 10_000 */
export function memory(options: EmbeddedOptions = {}): Plugin<"storage", Storage> {
  const problems = optionProblems<EmbeddedOptions>(options, { window: WINDOW });
  return own({
    kind: "storage",
    name: "memory",
    problems,
    async setup({ clock, log }) {
      const { default: memoryDriver } = await import("unstorage/drivers/memory");
      const store = new Store({ driver: memoryDriver(), form: PLAIN, keys: sortedMap(), log });
      const status = async () => ({ rows: store.facts().rows });
      return embedded({ ...store.calls(), name: "memory", durability: "volatile", status }, clock, options);
    },
  });
}
