/** The whole API on a real socket, over memory storage, with tokens that say what they are. */
import type { IncomingHttpHeaders } from "node:http";
import { createApp } from "../../core/api/http/app.ts";
import { healthRoutes } from "../../core/api/resources/health.ts";
import type { HealthPart } from "../../core/api/resources/health.ts";
import type { AnyOperation } from "../../core/api/http/operation.ts";
import { createOperations } from "../../core/api/resources/operations.ts";
import type { OperationsDeps } from "../../core/api/resources/deps.ts";
import { createSubscriptions } from "../../core/subscriptions/subscriptions.ts";
import type { SubscriptionsDeps } from "../../core/subscriptions/subscriptions.ts";
import { Limiter } from "../../core/limits/limiter.ts";
import type { Auth, Principal } from "../../core/ports/auth.ts";
import type { Route } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { listen } from "../../core/runtime/server.ts";
import type { Listening } from "../../core/runtime/server.ts";
import type { Transforms } from "../../core/runtime/transforms/transforms.ts";
import type { HealthOptions, LimitRows } from "../../core/ports/plan.ts";
import { http } from "../../plugins/source/http.ts";
import { ask } from "../support/ask.ts";
import { sendRaw } from "../support/gateway.ts";
import { testPath, type TestPath } from "../support/path.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

export interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body as JSON, where it is. */
  readonly json: {
    readonly data?: never;
    readonly meta?: { readonly timestamp: string; readonly nextCursor?: string };
    readonly code?: string;
    readonly errors?: readonly { readonly path: string; readonly message: string }[];
    readonly [name: string]: unknown;
  };
}

export interface AskOptions {
  readonly token?: string | readonly string[] | false;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: unknown;
}

export interface Served extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly path: TestPath;
  readonly log: ReturnType<typeof quietLog>;
  readonly listening: Listening;
  readonly operations: readonly AnyOperation[];
  /** Those that are no operations. */
  readonly routes: readonly Route[];
  ask(method: string, target: string, options?: AskOptions): Promise<Got>;
  /** Sends bytes as they are, and resolves to all that came back until the connection ended. */
  raw(bytes: string | Uint8Array): Promise<string>;
}

export interface ServeOptions {
  readonly rows?: LimitRows;
  readonly trustedProxies?: readonly string[];
  readonly storage?: Storage;
  readonly routes?: readonly Route[];
  readonly parts?: () => Readonly<Record<string, HealthPart>>;
  readonly more?: Partial<OperationsDeps>;
  readonly auth?: Auth;
  readonly transforms?: Transforms;
  readonly registerUrl?: SubscriptionsDeps["registerUrl"];
  readonly health?: HealthOptions;
}

export const PUBLISH_TOKEN = "publish-token";
export const LIST = "/api-keys/key_1/webhooks";
export const HOOK = { url: "https://hooks.example.com/a", events: ["deposit:paid"] };

/** The retry policy of the relay under test. */
export const RETRY = { attempts: 5, firstDelayMs: 5_000, factor: 4, maxDelayMs: 3_600_000 };

const HOUR = 3_600_000;

/** `all`, `all+mfa`, `key_1+portal`, `key_1`, `key_1,key_2`, `none`; anything else is refused. */
export function tokenAuth(now: () => number): Auth {
  return {
    ready: () => true,
    async authenticate(request) {
      const token = /^Bearer (\S+)$/.exec(request.header("authorization") ?? "")?.[1];
      if (token === undefined || token.startsWith("bad")) return { refused: "not a token of the tests" };
      const [owned = "", ...more] = token.split("+");
      const mfa = more.includes("mfa");
      const principal: Principal = {
        sub: `user-${owned}`,
        keys: owned === "all" ? "*" : owned === "none" ? [] : owned.split(","),
        amr: mfa ? ["pwd", "mfa"] : ["pwd"],
        authTime: more.includes("old") ? Math.floor((now() - HOUR) / 1_000) : Math.floor(now() / 1_000),
        expiresAt: now() + HOUR,
        ...(more.includes("portal") && { portal: "link" }),
      };
      return principal;
    },
  };
}

export async function serve(options: ServeOptions = {}): Promise<Served> {
  const { storage: given, transforms, health } = options;
  const made = await testPath({ storage: given, transforms, health });
  const { parts, clock, storage } = made;
  const log = quietLog();
  const auth = options.auth ?? tokenAuth(clock.now);
  const source = await http({ tokens: [PUBLISH_TOKEN] }).setup({ clock, log } as never);
  const { accept, admit } = parts.publisher;
  await source.start(accept, { durability: storage.durability, admit });
  const limits = new Limiter({ counters: storage.counters, rows: options.rows ?? {}, abuse: false, clock });
  const readiness = options.parts ?? (() => ({ storage: { ready: true } }));
  const operations = createOperations({
    ...parts,
    ...(options.registerUrl && {
      subscriptions: createSubscriptions({
        storage,
        clock,
        keys: parts.keys,
        registerUrl: options.registerUrl,
        retry: RETRY,
        perKey: 1_000,
        abort: () => Promise.resolve(),
      }),
    }),
    auth,
    publish: (request, also) => parts.publisher.accept(request, also),
    eraseEvent: parts.eventErasure.erase,
    eraseKey: parts.keyErasure.erase,
    schemes: ["https"],
    events: () => undefined,
    types: () => undefined,
    transforms: options.transforms?.names ?? (() => []),
    pausedMs: (id) => parts.gates.leftMs(id, "retry_after"),
    probe: async (ids) => void (await parts.circuitBreaker.open(ids)),
    ping: parts.testEvent.send,
    preview: parts.testEvent.preview,
    feed: parts.liveFeed,
    figures: {
      stats: parts.statsQuery.ofKey,
      sums: parts.statsQuery.sumsOf,
      relay: parts.statsQuery.ofRelay,
      status: async () => ({ nodes: 1 }),
      parts: async () => readiness(),
    },
    rekey: async () => ({ state: "done", sealed: 0, unreadable: [] }),
    ...options.more,
  });
  const routes = [...healthRoutes({ clock, readiness }), ...(source.routes ?? []), ...(options.routes ?? [])];
  const app = createApp({
    clock,
    log,
    metrics: quietMetrics(),
    auth,
    limits,
    stepUp: { acr: [], amr: ["mfa"], maxAgeMs: 300_000 },
    trustedProxies: options.trustedProxies ?? [],
    operations,
    routes,
  });
  const listening = await listen(app, {
    host: "127.0.0.1",
    port: 0,
    trustedProxies: [],
    shutdownMs: 1_000,
    maxConnections: 1_000,
  });
  const { url, port } = listening;

  return {
    url,
    port,
    path: made,
    log,
    listening,
    operations,
    routes,
    ask: (method, target, asked = {}) => asking(port, method, target, asked),
    raw: (bytes) => sendRaw(port, bytes),
    async [Symbol.asyncDispose]() {
      await source.stop();
      await listening.close(500);
      await made[Symbol.asyncDispose]();
    },
  };
}

async function asking(
  port: number,
  method: string,
  target: string,
  { token = "all", headers, body }: AskOptions,
): Promise<Got> {
  const payload =
    body === undefined || typeof body === "string" || body instanceof Uint8Array
      ? (body as string | undefined)
      : JSON.stringify(body);
  const all: Record<string, string | readonly string[]> = {};
  if (token !== false) all["authorization"] = typeof token === "string" ? `Bearer ${token}` : token;
  if (payload !== undefined) all["content-type"] = "application/json";
  Object.assign(all, headers);
  // Node's client announces no body for GET and DELETE by itself.
  if (payload !== undefined && all["transfer-encoding"] === undefined)
    all["content-length"] = String(Buffer.byteLength(payload));
  const got = await ask(port, method, target, { headers: all, body: payload });
  return { ...got, text: got.body.toString(), json: got.json as Got["json"] };
}
