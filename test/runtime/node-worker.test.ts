import { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { startNodeWorker } from "../../core/runtime/threads/node-worker.ts";

const spawnText =
  (text: string): Parameters<typeof startNodeWorker>[0]["spawn"] =>
  (start, ports) =>
    new Worker(text, { eval: true, workerData: start, transferList: [...ports] });

const started = (text: string, lines: (lines: string) => void = () => undefined) =>
  startNodeWorker({
    spawn: spawnText(text),
    start: { index: 1, count: 2, storage: undefined, port: 1, feed: "feed", readable: false },
    now: 0,
    lines,
    processMetrics: async () => "the metrics of all",
  });

describe("a thread of a node", () => {
  it("that hangs is ended once it has given no sign of life for long enough, and is said to have hung", async () => {
    const node = started("for (;;);");
    const starting = node.start().catch((error: unknown) => error);
    for (let seconds = 0; seconds < 120; seconds++) node.look();
    expect(await Promise.race([node.ended, new Promise((turn) => setImmediate(() => turn("alive")))])).toBe("alive");
    node.look();
    expect(await node.ended).toMatchObject({ hung: true });
    expect(String(await starting)).toContain("ended with");
  });

  it("that gives signs of life is left alone however long it runs", async () => {
    const node = started(`
      const { workerData } = require("node:worker_threads");
      const { control } = workerData;
      control.on("message", ([[id]]) => {
        control.postMessage([[0, "beat", [{ underWay: 3, parts: {} }]]]);
        control.postMessage([[-id, { url: "http://127.0.0.1:1", made: [] }]]);
      });`);
    expect((await node.start()).url).toBe("http://127.0.0.1:1");
    expect(node.running).toBe(true);
    expect(node.beat.underWay).toBe(3);
    for (let beats = 0; beats < 5; beats++) {
      for (let seconds = 0; seconds < 15; seconds++) node.look();
      await node.link.call("anything", []);
    }
    expect(node.running).toBe(true);
    node.kill();
    expect(await node.ended).toMatchObject({ hung: false });
    expect(node.running).toBe(false);
  });

  it("that throws is ended with what it threw, and its start fails with that", async () => {
    const node = started(`throw new Error("of the plug-in");`);
    await expect(node.start()).rejects.toThrow("of the plug-in");
    expect(String((await node.ended).error)).toContain("of the plug-in");
  });

  it("writes what it said last, also when it exits at once", async () => {
    const lines: string[] = [];
    const node = started(
      `const { parentPort } = require("node:worker_threads");
       process.on("exit", () => parentPort.postMessage("the last line\\n"));
       process.exit(3);`,
      (text) => lines.push(text),
    );
    await expect(node.start()).rejects.toThrow("ended with 3");
    expect(await node.ended).toMatchObject({ exitCode: 3, hung: false });
    expect(lines).toEqual(["the last line\n"]);
  });
});
