// The relay as the command starts it, but blind: nothing is counted, nothing is logged.
import { loadConfig } from "../../config/load.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { composeRelay } from "../../core/runtime/compose/compose.ts";
import { keepHeapTidy } from "../../core/runtime/v8-settings.ts";
import { createLog } from "../../core/runtime/observability/index.ts";

const { plan } = await loadConfig({
  flags: { config: process.argv[2] as string },
  env: process.env,
  cwd: process.cwd(),
});
const nothing = (): void => undefined;
const metrics = {
  count: nothing,
  gauge: nothing,
  observe: nothing,
  snapshot: async () => ({ metrics: [], heapUsed: 0 }),
  text: async () => "",
  onRead: nothing,
  declare: nothing,
  dispose: nothing,
};
const log = { ...createLog("silent"), debug: nothing, info: nothing, warn: nothing, error: nothing };
const relay = composeRelay(plan, { clock: systemClock(), log, metrics });
process.on("SIGTERM", () => void relay.stop().then(() => process.exit(0)));
await relay.start();
void keepHeapTidy(systemClock(), new AbortController().signal);
