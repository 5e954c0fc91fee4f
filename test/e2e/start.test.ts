import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { startCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";

const folder = testFolder();

/**
 * Loaded into each thread of a process: tells what that thread has loaded of Node's own, the storage's when it says its
 * first word, as its file runs by then, and the main one at its end.
 */
const PROBE = `
import { isMainThread, parentPort } from "node:worker_threads";
import { writeSync } from "node:fs";
const tell = (who) => {
  const strips = process.moduleLoadList.some((name) => name.includes("amaro"));
  writeSync(2, who + (strips ? " strips\\n" : " has it compiled\\n"));
};
if (isMainThread) process.once("exit", () => tell("main"));
else {
  const { postMessage } = parentPort;
  parentPort.postMessage = (word) => {
    parentPort.postMessage = postMessage;
    tell("thread");
    parentPort.postMessage(word);
  };
}
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
    const started = async (): Promise<string> => {
      await using relay = startCommand(["start", "--config", config], { env });
      await relay.waitFor(/listening at/);
      relay.kill("SIGTERM");
      const { code, stderr } = await relay.ended;
      expect(code).toBe(0);
      return stderr;
    };
    await started();
    const said = await started();
    expect(said.match(/^(main|thread) .*/gm)).toEqual(["thread has it compiled", "main has it compiled"]);
  });
});
