/** A process of its own: sqlite, intake and a spool on the folders given, until it is killed. Run by the spool's kill test. */
import { createPublisher } from "../../core/publish/accept.ts";
import { createSubscriptionCache } from "../../core/subscriptions/subscriptions.ts";
import { contextOf } from "../../core/runtime/plugin/context.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { spool } from "../../plugins/source/spool.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { context } from "./context.ts";

const [dataDir = "", dir = ""] = process.argv.slice(2);
const around = context({ clock: systemClock(), dataDir, configDir: dataDir });
const storage = await sqlite({ dir: dataDir }).setup(contextOf(sqlite(), around, undefined));
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
const plugin = spool({ dir });
const source = await plugin.setup(contextOf(plugin, around, storage));
await source.start(accept, { durability: storage.durability });
// The relay's own server keeps a real process alive; here it is this.
process.stdin.resume();
