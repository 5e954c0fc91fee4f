/** Two nodes on a storage in memory, each of which hears what the other one asks: a Redis in one process. */
import { afterEach } from "vitest";
import type { Nodes, Storage } from "../../core/ports/storage.ts";
import { bound } from "../../core/runtime/plugin/bound.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "./clock.ts";
import { pluginContext } from "./plugin-context.ts";

type Act = Parameters<Nodes["answer"]>[0];

/** Closes after each test what it has opened. */
export function useTwoNodes() {
  const open: Storage[] = [];
  afterEach(async () => {
    for (const storage of open.splice(0)) await storage.dispose();
  });
  return async () => {
    const clock = testClock();
    const inner = await memory().setup(pluginContext(clock, "/nonexistent"));
    open.push(inner);
    const acts = [new Set<Act>(), new Set<Act>()] as const;
    const node = (own: Set<Act>, others: Set<Act>): Storage => ({
      ...inner,
      queue: bound(inner.queue, {}),
      nodes: {
        async ask(message) {
          await Promise.all([...others].map((act) => act(message)));
          return true;
        },
        answer(act) {
          own.add(act);
          return () => void own.delete(act);
        },
      },
      dispose: async () => undefined,
    });
    return { clock, one: node(acts[0], acts[1]), two: node(acts[1], acts[0]) };
  };
}
