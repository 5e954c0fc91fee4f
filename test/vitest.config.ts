import { defineConfig } from "vitest/config";
import { quickFolder } from "./support/quick-folder.ts";
import { TallyReporter } from "./tally-reporter.ts";
import { LongestFirst } from "./longest-first.ts";

const ci = process.env["CI"] === "true";

const at = (path: string): string => new URL(`../${path}`, import.meta.url).pathname;

// Processes and threads of the tests inherit it, hundreds of which run the sources: stripping their types and compiling them
// took two thirds of the CPU time of a short one. Coverage is less exact with it.
if (!process.argv.some((word) => word.startsWith("--coverage")))
  process.env["NODE_COMPILE_CACHE"] ??= at("node_modules/.cache/tests");

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts", "examples/plugin-*/test/*.test.ts"],
    globalSetup: ["test/packed-relay.ts", "test/browser-server.ts"],
    setupFiles: ["test/setup.ts"],
    pool: "forks",
    // Node runs the sources as it does outside of tests. What vitest would make of them runs slower (7 % of all the time), and
    // a config file would load the same module a second time.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // Files of one worker share what they import: nothing of ours keeps a state that a file could leave to the next, and
    // loading it for each file took a fifth of all the time.
    isolate: false,
    env: { TMPDIR: quickFolder() },
    // Tests start relays and servers of their own and wait for them, more than half of the time: five keep two cores busy.
    maxWorkers: 5,
    sequence: { sequencer: LongestFirst },
    // A busy machine takes several times as long, and nothing is learnt from a test that it cuts off.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    teardownTimeout: 15_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ci ? ["default", new TallyReporter(at("artefacts/tests.ndjson"))] : ["default"],
  },
});
