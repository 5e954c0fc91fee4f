// The supervisor of several threads, with threads of the test's own in place of real ones.
import { EventEmitter } from "node:events";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import type { Plan } from "../../core/ports/plan.ts";
import { createMetrics, type ProcessLog } from "../../core/runtime/observability/index.ts";
import { createLink } from "../../core/runtime/threads/link.ts";
import type { ThreadStart } from "../../core/runtime/threads/node-thread.ts";
import { openStorageClient } from "../../core/runtime/threads/storage-client.ts";
import { composeThreads } from "../../core/runtime/threads/supervisor.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { quietLog } from "../support/quiet.ts";

const plan = (): Plan =>
  ({
    server: { host: "127.0.0.1", port: 0, trustedProxies: [], shutdownMs: 1_000, maxConnections: 10 },
    ...{ storage: memory(), sources: [], transports: [], observers: [], auth: {}, transforms: {}, limits: {} },
    ...{ guard: { allow: [] }, dataDir: join(testFolder(), "data"), configDir: testFolder() },
  }) as unknown as Plan;

/** A thread whose node serves at once. */
function servingThread(start: ThreadStart) {
  const thread = Object.assign(new EventEmitter(), {
    start,
    terminate: () => Promise.resolve(void thread.emit("exit", 1)),
  });
  createLink(start.control, (method) => (method === "start" ? { url: "http://127.0.0.1:1", made: [] } : undefined));
  return thread;
}

describe("a thread that the system has no room for", () => {
  it("holds up nothing that the others do, and another one is started later", async () => {
    const clock = testClock();
    const log = quietLog();
    const threads: ReturnType<typeof servingThread>[] = [];
    let refusals = 0;
    const relay = composeThreads(plan(), 2, {
      log: {
        ...log,
        ...{ setLevel: () => undefined, hideWith: () => undefined, addLines: () => undefined },
        ...{ flush: () => Promise.resolve(), dropped: () => 0 },
      } satisfies ProcessLog,
      ...{ clock, metrics: createMetrics(), env: {}, readable: false, gaveUp: () => undefined },
      spawn(start) {
        if (refusals-- > 0) throw new Error("Worker initialization failure: EAGAIN");
        const thread = servingThread(start);
        threads.push(thread);
        return thread as unknown as Worker;
      },
    });
    await relay.start();
    const [first, second] = threads;
    const storage = await openStorageClient((first as (typeof threads)[0]).start.storage as never, systemClock());
    refusals = 1;
    second?.emit("exit", 1);
    const said = (): readonly string[] => log.lines.map(({ message }) => message);
    for (let seconds = 0; seconds < 5 && !said().includes("a thread has been replaced"); seconds++)
      await clock.advance(1_000);
    expect(said()).toEqual(["a thread ended and is replaced", "a thread cannot start", "a thread has been replaced"]);
    const turns = async (): Promise<string> => {
      for (let turn = 0; turn < 100; turn++) await new Promise((turned) => setImmediate(turned));
      return "waits";
    };
    // The third thread answers nothing here: it is no storage's client.
    threads[2]?.emit("exit", 1);
    await turns();
    expect(await Promise.race([storage.queue.cancel("sub_a"), turns()])).toBeUndefined();
    await storage.dispose();
    await relay.stop();
  });
});
