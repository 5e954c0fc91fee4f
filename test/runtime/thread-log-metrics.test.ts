// The metrics of a process with threads: what the supervisor alone knows is in them too.
import { EventEmitter } from "node:events";
import type { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import type { Plan } from "../../core/ports/plan.ts";
import { createMetrics, type ProcessLog } from "../../core/runtime/observability/index.ts";
import { createLink, type Link } from "../../core/runtime/threads/link.ts";
import { composeThreads } from "../../core/runtime/threads/supervisor.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { quietLog } from "../support/quiet.ts";

describe("lines of the log that nobody read in time", () => {
  it("are counted where the process writes them, though no thread knows of them", async () => {
    const links: Link[] = [];
    const log: ProcessLog = {
      ...quietLog(),
      ...{ setLevel: () => undefined, hideWith: () => undefined, addLines: () => undefined },
      ...{ flush: () => Promise.resolve(), dropped: () => 7 },
    };
    const server = { host: "127.0.0.1", port: 0, trustedProxies: [], shutdownMs: 1_000, maxConnections: 10 };
    const plan = { server, storage: { shared: true }, transforms: {}, limits: {} } as unknown as Plan;
    const metrics = createMetrics();
    const relay = composeThreads(plan, 2, {
      ...{ clock: systemClock(), log, metrics, env: {}, readable: false, gaveUp: () => undefined },
      spawn({ control }) {
        const own = createMetrics();
        const thread = Object.assign(new EventEmitter(), {
          terminate: () => Promise.resolve(void thread.emit("exit", 0)),
        });
        const calls: Readonly<Record<string, () => unknown>> = {
          start: () => ({ url: "http://127.0.0.1:1", made: [] }),
          snapshot: () => own.snapshot(),
        };
        links.push(createLink(control, (method) => calls[method]?.()));
        return thread as unknown as Worker;
      },
    });
    await relay.start();
    try {
      expect(await links[0]?.call<string>("metrics", [])).toContain("\nrelay_log_lines_dropped 7\n");
    } finally {
      await relay.stop();
      metrics.dispose();
    }
  });
});
