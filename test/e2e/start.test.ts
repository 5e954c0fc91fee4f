import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { startCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";

const folder = testFolder();

/** Loaded into each thread of a process: tells what that thread has loaded of Node's own, half a second after it began. */
const PROBE = `
import { isMainThread } from "node:worker_threads";
import { writeSync } from "node:fs";
setTimeout(() => {
  const strips = process.moduleLoadList.some((name) => name.includes("amaro"));
  writeSync(2, (isMainThread ? "main" : "thread") + (strips ? " strips\\n" : " has it compiled\\n"));
}, 500);
`;

describe("a start from a checkout", () => {
  it("strips no types that an earlier one has stripped, in either thread", async () => {
    const probe = join(folder, "probe.mjs");
    await writeFile(probe, PROBE);
    const config = join(folder, "relay.config.ts");
    await writeFile(
      config,
      `import { defineRelay } from "relaybox";
export default defineRelay({ dataDir: "./data", server: { host: "127.0.0.1", port: 0 } });
`,
    );
    const env = { NODE_OPTIONS: `--import=${pathToFileURL(probe).href}` };
    {
      await using first = startCommand(["start", "--config", config], { env });
      await first.waitFor(/main .*/);
      await first.waitFor(/thread .*/);
      first.kill("SIGTERM");
      expect((await first.ended).code).toBe(0);
    }
    await using second = startCommand(["start", "--config", config], { env });
    expect((await second.waitFor(/main .*/))[0]).toBe("main has it compiled");
    expect((await second.waitFor(/thread .*/))[0]).toBe("thread has it compiled");
  });
});
