// The gateway in several threads of one process: what one of them learns of the upstream holds for all, and so do its bounds.
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { BroadcastChannel } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { defaultRows } from "../../config/limits.ts";
import { createApp } from "../../core/api/http/app.ts";
import { createLimiter } from "../../core/limits/limiter.ts";
import type { Plan } from "../../core/ports/plan.ts";
import { composeGateway } from "../../core/runtime/compose/gateway.ts";
import { listen } from "../../core/runtime/server.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import { ask } from "../support/ask.ts";
import { testClock } from "../support/clock.ts";
import { startUpstream } from "../support/gateway.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { until } from "../support/until.ts";

/** The gateways of all threads of a process, each with a port of its own. They share the counters, as threads do. */
async function startThreads(count: number, upstream: string) {
  const [clock, log, feed] = [testClock(), quietLog(), `feed_${randomUUID()}`];
  const limits = Object.fromEntries(Object.keys(defaultRows).map((name) => [name, { perMinute: 1_000, per5s: 1_000 }]));
  const limiter = createLimiter({ counters: createCounters(clock), rows: limits, abuse: false, clock });
  const server = { host: "127.0.0.1", port: 0, trustedProxies: ["127.0.0.1"], shutdownMs: 500, maxConnections: 1_000 };
  const plan = { limits, server, gateway: { upstream, keyHeader: "X-API-Key" } } as unknown as Plan;
  const keys = { publicJwk: () => ({ kid: "of-all-of-them" }) };
  const made = await Promise.all(
    Array.from({ length: count }, async () => {
      const gateway = composeGateway({ plan, clock, log, limiter, keys, ca: undefined, thread: { feed, count } });
      const app = createApp({
        ...{ clock, log, metrics: quietMetrics(), limits: limiter, operations: [], routes: gateway.routes },
        auth: { ready: () => true, authenticate: async () => ({ refused: "there are no tokens here" }) },
        stepUp: { acr: [], amr: [], maxAgeMs: 1 },
        trustedProxies: server.trustedProxies,
      });
      return { gateway, listening: await listen(app, server) };
    }),
  );
  let told = 0;
  const channel = new BroadcastChannel(`${feed} rest`);
  channel.onmessage = () => void told++;
  return {
    clock,
    /** Resolves when the threads have told each other so often. */
    async whenTold(times: number) {
      await until(() => told >= times);
      await new Promise((turned) => setImmediate(turned));
    },
    ports: made.map(({ listening }) => listening.port),
    async [Symbol.asyncDispose]() {
      channel.close();
      await Promise.all(made.map(({ listening }) => listening.close(200)));
      await Promise.all(made.map(({ gateway }) => gateway.dispose()));
    },
  };
}

describe("an upstream behind several threads", () => {
  it("that asked for a rest gets it from all of them", async () => {
    let status = 503;
    await using upstream = await startUpstream((_req, res) => {
      res.writeHead(status, { "Retry-After": "30" }).end("{}");
    });
    await using relay = await startThreads(3, upstream.url);
    const asked = async (thread: number, key: string): Promise<unknown> => {
      const got = await ask(relay.ports[thread] as number, "GET", "/v1/qr", { headers: { "X-API-Key": key } });
      return [got.status, got.headers["retry-after"]];
    };
    expect(await asked(0, "one")).toEqual([429, "30"]);
    await relay.whenTold(1);
    expect([await asked(1, "one"), await asked(2, "two")]).toEqual(Array(2).fill([429, "30"]));
    expect(upstream.seen).toHaveLength(1);
    await relay.clock.advance(30_000);
    status = 429;
    expect(await asked(1, "one")).toEqual([429, "30"]);
    await relay.whenTold(2);
    expect(await asked(2, "one")).toEqual([429, "30"]);
    expect(upstream.seen).toHaveLength(2);
    status = 200;
    expect(await asked(2, "two")).toEqual([200, "30"]);
  });

  it("has as many requests as behind one, and of one key as many", { timeout: 60_000 }, async () => {
    const waiting: ServerResponse[] = [];
    await using upstream = await startUpstream((_req, res) => void waiting.push(res));
    await using relay = await startThreads(4, upstream.url);
    const answers: Promise<{ readonly status: number }>[] = [];
    let settled = 0;
    const asked = (n: number, key: string): void => {
      const headers = { "X-API-Key": key, "X-Forwarded-For": `192.0.2.${n % 250}` };
      const got = ask(relay.ports[n % 4] as number, "GET", "/v1/qr", { headers });
      answers.push(got.finally(() => settled++));
    };
    for (let n = 0; n < 40; n++) asked(n, "one key");
    await until(() => waiting.length + settled === 40);
    expect(waiting).toHaveLength(16);
    for (let n = 0; n < 160; n++) asked(n, `key-${n}`);
    await until(() => waiting.length + settled === 200);
    expect(waiting).toHaveLength(128);
    for (const res of waiting) res.end("{}");
    await Promise.all(answers);
  });
});
