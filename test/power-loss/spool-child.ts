/**
 * The recorded process of the spool: `node spool-child.ts <data> <drop> <files>` takes in so many files on sqlite(), and
 * says "forget" before it gives up its notes about each.
 */
import { writeSync } from "node:fs";
import { createPublisher } from "../../core/publish/accept.ts";
import { createSubscriptionCache } from "../../core/subscriptions/subscriptions.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { contextOf } from "../../core/runtime/plugin/context.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { spool } from "../../plugins/source/spool.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { context } from "../support/context.ts";

const [dataDir = "", dir = "", files = "0"] = process.argv.slice(2);
const around = context({ clock: systemClock(), dataDir, configDir: dataDir });
const storage = await sqlite({ dir: dataDir }).setup(contextOf(sqlite(), around, undefined));
let taken = 0;
const { clock, log, metrics } = around;
const { accept } = createPublisher({
  storage,
  handOver: { offer: (_, dues) => storage.queue.add(dues) },
  subscriptionCache: createSubscriptionCache(storage),
  clock,
  maxPending: 0,
  log,
  metrics,
});
const heard: Storage = {
  ...storage,
  commit(changes) {
    if (changes.every(({ op, key }) => op === "delete" && key.startsWith("plugin:"))) writeSync(1, "forget\n");
    return storage.commit(changes);
  },
};
const plugin = spool({ dir });
const done = Promise.withResolvers<void>();
const ctx = contextOf(plugin, around, heard);
const count: typeof metrics.count = (name) => {
  if (name === "spool_files" && ++taken === Number(files)) done.resolve();
};
const source = await plugin.setup(Object.create(ctx, { metrics: { value: { ...ctx.metrics, count } } }));
await source.start(accept, { durability: storage.durability });
await done.promise;
await source.stop();
await storage.dispose();
