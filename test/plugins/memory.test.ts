import { describeStorage } from "../conformance/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { testClock } from "../support/clock.ts";

const clock = testClock();

describeStorage("memory()", {
  clock,
  open: async () => memory().setup(pluginContext(clock, "/nonexistent")),
  skips: { reopen: "it is gone with the process, and says so (volatile)" },
});
