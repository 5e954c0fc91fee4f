// A thread that starts later than its process: it runs with the config of the start, or not at all.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { MessageChannel } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../config/load.ts";
import { threadSpawner } from "../../core/cli/support/node-threads.ts";
import { createLink } from "../../core/runtime/threads/link.ts";
import { testFolder } from "../support/folder.ts";

const TOKEN = "the-token-of-the-start";

describe("a thread of a process whose config", () => {
  /** Starts a thread after the file was changed. @returns what its start answers */
  async function startLater(before: string, after: string): Promise<string> {
    const folder = testFolder();
    const file = join(folder, "relay.config.ts");
    const write = (body: string): void => writeFileSync(file, `export default { dataDir: "./data", ${body} };`);
    write(before);
    const by = { flags: { config: file }, env: {}, cwd: folder };
    const { plan } = await loadConfig(by);
    write(after);
    const { port1, port2 } = new MessageChannel();
    const place = { index: 0, count: 1, storage: undefined, port: undefined, feed: "feed", readable: false };
    const thread = threadSpawner(plan, by)({ ...place, control: port2 }, [port2]);
    try {
      const started = createLink(port1, () => undefined).call("start", []);
      return await started.then(
        () => "started",
        (error: unknown) => (error as Error).message,
      );
    } finally {
      await thread.terminate();
      port1.close();
    }
  }

  it("has another token by now is refused, as one with another port is", async () => {
    const check = (token: string): string => `limits: { check: { token: "${token}" } }`;
    const changed = "the config was changed since the process started: restart the relay";
    expect(await startLater("server: { port: 1 }", "server: { port: 2 }")).toBe(changed);
    expect(await startLater(check(TOKEN), check(`${TOKEN}-2`))).toBe(changed);
    expect(await startLater(`metrics: { token: "${TOKEN}" }`, `metrics: { token: "${TOKEN}-2" }`)).toBe(changed);
  });

  it("has other limits by now starts: those may change", async () => {
    expect(await startLater("server: { port: 0 }, limits: {}", `server: { port: 0 }, limits: { "*": false }`)).toBe(
      "started",
    );
  });
});
