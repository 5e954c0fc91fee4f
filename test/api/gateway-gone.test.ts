// A client that leaves while the limits are still being asked, as they are on Redis: it takes no place at the upstream.
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { defaultRows } from "../../config/limits.ts";
import { createGateway } from "../../core/api/gateway/gateway.ts";
import { createApp } from "../../core/api/http/app.ts";
import { createGuard } from "../../core/guard/index.ts";
import type { LimitVerdict } from "../../core/limits/limiter.ts";
import { listen } from "../../core/runtime/server.ts";
import { ask } from "../support/ask.ts";
import { testClock } from "../support/clock.ts";
import { startUpstream } from "../support/gateway.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { until } from "../support/until.ts";

const PASSED: LimitVerdict = { headers: {}, giveBack: () => Promise.resolve({}) };
const server = { host: "127.0.0.1", port: 0, trustedProxies: [], shutdownMs: 500, maxConnections: 100 };

/** A gateway whose limits answer when the test says so. */
async function startSlow(upstream: string, concurrency: number) {
  const [clock, log, url] = [testClock(), quietLog(), new URL(upstream)];
  const asked: (() => void)[] = [];
  const limits = {
    check: () => new Promise<LimitVerdict>((resolve) => asked.push(() => resolve(PASSED))),
    unauthenticated: () => Promise.resolve(PASSED),
  };
  const { connect: dial } = createGuard({ allow: [`${url.hostname}:${url.port}`], ports: [], clock });
  const gateway = createGateway({
    ...{ rows: Object.keys(defaultRows), limits, trustedProxies: [], clock, log },
    upstream: { url, connect: dial, keyHeader: "X-API-Key", concurrency },
  });
  const app = createApp({
    ...{ clock, log, metrics: quietMetrics(), limits, operations: [], routes: gateway.routes, trustedProxies: [] },
    auth: { ready: () => true, authenticate: async () => ({ refused: "there are no tokens here" }) },
    stepUp: { acr: [], amr: [], maxAgeMs: 1 },
  });
  let left = 0;
  const listening = await listen((req, res) => {
    res.once("close", () => left++);
    app(req, res);
  }, server);
  return {
    port: listening.port,
    asked,
    left: () => left,
    async [Symbol.asyncDispose]() {
      await listening.close(200);
      await gateway.dispose();
    },
  };
}

describe("a client that leaves while it is being counted", () => {
  it.each([
    ["in the middle of its body", "POST /v1/qr/create", "Content-Length: 100\r\n\r\nonly this"],
    ["with nothing more to send", "GET /v1/qr", "\r\n"],
  ])("%s holds no place, and the upstream does not hear of it", async (_, line, rest) => {
    let heard = 0;
    await using upstream = await startUpstream(undefined, (req, res) => {
      heard++;
      if (req.headers["x-api-key"] === "calm") res.end("{}");
      return true;
    });
    await using gateway = await startSlow(upstream.url, 8);
    const socket = connect(gateway.port, "127.0.0.1").on("error", () => undefined);
    socket.write(`${line} HTTP/1.1\r\nHost: x\r\n${rest}`);
    await until(() => gateway.asked.length === 1);
    socket.destroy();
    await until(() => gateway.left() === 1);
    gateway.asked[0]?.();
    const next = ask(gateway.port, "GET", "/v1/qr", { headers: { "X-API-Key": "calm" } });
    await until(() => gateway.asked.length === 2);
    gateway.asked[1]?.();
    expect((await next).status).toBe(200);
    expect(heard).toBe(1);
  });
});
