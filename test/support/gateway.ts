/** The gateway and `/limits/check` on a real socket, in front of a real upstream, on a clock that tests move. */
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect, createServer as createTcp } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { createApp } from "../../core/api/http/app.ts";
import { createGateway } from "../../core/api/gateway/gateway.ts";
import type { GatewayDeps } from "../../core/api/gateway/gateway.ts";
import { limitsCheckRoutes } from "../../core/api/gateway/limits-check.ts";
import { createGuard } from "../../core/guard/index.ts";
import { Limiter } from "../../core/limits/limiter.ts";

import type { AbuseOptions, LimitRows } from "../../core/ports/plan.ts";
import { listen } from "../../core/runtime/server.ts";
import { defaultRows } from "../../config/limits.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import { ask, type Asking, type Got } from "./ask.ts";
import { testClock } from "./clock.ts";
import type { TestClock } from "./clock.ts";
import { quietLog, quietMetrics } from "./quiet.ts";

export const CHECK_TOKEN = "the-proxy-asks-with-this";

export interface GatewayOptions {
  /** Where the upstream is; left out, none is configured. */
  readonly upstream?: string | undefined;
  readonly keyHeader?: string;
  readonly rows?: LimitRows;
  readonly abuse?: AbuseOptions;
  readonly trustedProxies?: readonly string[];
  readonly concurrency?: number;
  readonly capacity?: number;
}

export interface TestGateway extends AsyncDisposable {
  readonly port: number;
  readonly clock: TestClock;
  readonly log: ReturnType<typeof quietLog>;
  ask(method: string, path: string, headers?: Asking["headers"], body?: Asking["body"]): Promise<Got>;
}

export async function startGateway(options: GatewayOptions = {}): Promise<TestGateway> {
  const { keyHeader = "X-API-Key", trustedProxies = [], rows = defaultRows, concurrency, capacity } = options;
  const clock = testClock();
  const log = quietLog();
  const counters = createCounters(clock, capacity === undefined ? {} : { capacity });
  const limits = new Limiter({ counters, rows, abuse: options.abuse ?? false, clock });
  const names = Object.keys(rows);
  const upstream = options.upstream === undefined ? undefined : upstreamOf(options.upstream, clock);
  const gateway = createGateway({
    rows: names,
    upstream: upstream && { ...upstream, keyHeader, ...(concurrency === undefined ? {} : { concurrency }) },
    limits,
    trustedProxies,
    clock,
    log,
  });
  const check = limitsCheckRoutes({ token: CHECK_TOKEN, rows: names, keyHeader, limits, clock });
  const app = createApp({
    clock,
    log,
    metrics: quietMetrics(),
    auth: { ready: () => true, authenticate: async () => ({ refused: "there are no tokens here" }) },
    limits,
    stepUp: { acr: [], amr: [], maxAgeMs: 1 },
    trustedProxies,
    operations: [],
    routes: [...gateway.routes, ...check],
  });
  const server = { host: "127.0.0.1", port: 0, trustedProxies: [], shutdownMs: 500, maxConnections: 1_000 };
  const listening = await listen(app, server);
  return {
    port: listening.port,
    clock,
    log,
    ask: (method, path, headers, body) => ask(listening.port, method, path, { headers, body }),
    async [Symbol.asyncDispose]() {
      await listening.close(200);
      await gateway.dispose();
    },
  };
}

/** A gateway before an upstream of its own. */
export async function startBehind(
  options: Omit<GatewayOptions, "upstream"> = {},
  ...answers: Parameters<typeof startUpstream>
): Promise<TestGateway & { readonly upstream: Upstream }> {
  const upstream = await startUpstream(...answers);
  const gateway = await startGateway({ upstream: upstream.url, ...options });
  return {
    ...gateway,
    upstream,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

function upstreamOf(upstream: string, clock: TestClock): Pick<NonNullable<GatewayDeps["upstream"]>, "url" | "connect"> {
  const url = new URL(upstream);
  return { url, connect: createGuard({ allow: [`${url.hostname}:${url.port}`], ports: [], clock }).connect };
}

export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly rawHeaders: readonly string[];
  readonly trailers: IncomingMessage["trailers"];
  readonly body: Buffer;
}

export interface Upstream extends AsyncDisposable {
  readonly url: string;
  /** Requests that have arrived whole. */
  readonly seen: Seen[];
  /** Connections that were opened. */
  readonly connections: () => number;
}

type Answer = (req: IncomingMessage, res: ServerResponse, seen: Seen) => void;

/** An upstream that answers once a request is whole; `early` looks at it as soon as its head is there, and may take it over. */
export async function startUpstream(
  answer: Answer = (_req, res) => void res.end("{}"),
  early: (req: IncomingMessage, res: ServerResponse) => boolean = () => false,
): Promise<Upstream> {
  const seen: Seen[] = [];
  let connections = 0;
  const server = createServer((req, res) => {
    if (early(req, res)) return;
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const { method = "", url = "", headers, rawHeaders, trailers } = req;
      const one = { method, url, headers, rawHeaders, trailers, body: Buffer.concat(chunks) };
      seen.push(one);
      answer(req, res, one);
    });
  });
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

/** An upstream below HTTP: what it gets it hands to `each`. */
export async function startTcp(each: (socket: Socket) => void): Promise<{ readonly url: string } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createTcp((socket) => {
    sockets.add(socket.on("error", () => undefined).on("close", () => sockets.delete(socket)));
    each(socket);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

/** Sends bytes as they are; resolves to all that came back until the connection ended. */
export function sendRaw(port: number, bytes: string | Uint8Array): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1" });
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
    socket.on("error", (error: NodeJS.ErrnoException) => (error.code === "ECONNRESET" ? undefined : reject(error)));
    socket.write(bytes);
  });
}

/** The lines of a head with their ends. */
export const head = (lines: readonly string[]): string => `${lines.join("\r\n")}\r\n\r\n`;
export const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
/** Returns how much is left of the two windows of a row. */
export const left = ({ headers }: Got): readonly number[] =>
  ["x-ratelimit-remaining", "x-burst-remaining"].map((name) => Number(headers[name]));
