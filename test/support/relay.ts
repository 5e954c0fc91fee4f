/** A whole relay in this process, on ports and folders of its own, with real sockets: for end-to-end tests. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, request } from "undici";
import type { RelayConfig } from "../../config/define.ts";
import { resolvePlan } from "../../config/validate.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { composeRelay } from "../../core/runtime/compose/compose.ts";
import type { Clock } from "../../core/ports/clock.ts";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { createLog, createMetrics } from "../../core/runtime/observability/index.ts";
import type { SpawnTransforms } from "../../core/runtime/transforms/worker.ts";
import { pages } from "../../dashboard/pages.ts";
import { testAuthority } from "./certificates.ts";
import { quickAccounts } from "./quick-accounts.ts";
import { eventually } from "./until.ts";

export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The body as JSON; its shape is the test's business. */
  readonly json: ReturnType<typeof JSON.parse>;
}

export interface Shortcuts {
  /** Makes a subscription of `key_1` to all events, unless it is told otherwise. */
  subscribe(url: string, more?: object, keyId?: string): Promise<{ readonly id: string; readonly secret: string }>;
  /** Returns an event as the API shows it, or undefined where there is none. */
  event(id: string, keyId?: string): Promise<ReturnType<typeof JSON.parse>>;
  /** Counts its deliveries, and those of its nodes. */
  backlog(): Promise<Record<"waiting" | "leased" | "underWay", number>>;
  /** Resolves once nothing waits, is leased or under way. */
  idle(): Promise<void>;
}

export interface TestRelay extends AsyncDisposable, Shortcuts {
  readonly url: string;
  readonly dataDir: string;
  /** Sends a request with an access token that owns every key, unless `token` says otherwise (`null`: none). */
  call(method: string, path: string, options?: CallOptions): Promise<Answered>;
  publish(body: unknown, headers?: Record<string, string>): Promise<Answered>;
  /** A fresh access token of the relay's own. */
  token(claims?: TokenClaims): Promise<string>;
  stop(): Promise<void>;
}

export interface TokenClaims {
  readonly sub?: string;
  readonly keys?: readonly string[];
  readonly access?: "manage" | "read";
  readonly mfa?: boolean;
}

export interface CallOptions {
  readonly token?: string | null;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
export const TEST_KEYS = { master: key(1), signing: key(2), publishToken: "publish-token-of-the-tests" };
/** The same as variables of a process. */
export const TEST_ENV = {
  RELAY_MASTER_KEY: TEST_KEYS.master,
  RELAY_SIGNING_KEY: TEST_KEYS.signing,
  RELAY_PUBLISH_TOKEN: TEST_KEYS.publishToken,
};

type Call = (method: string, path: string, body?: object) => Promise<Pick<Answered, "status" | "json">>;

/** Returns what tests ask most often of a relay that is called in this way. */
export const shortcuts = (call: Call): Shortcuts => ({
  backlog: async () => (await call("GET", "/relay/status")).json.data.backlog,
  idle() {
    return eventually("it is idle", async () => {
      const { waiting, leased, underWay } = await this.backlog();
      return waiting + leased + underWay === 0;
    });
  },
  async subscribe(url, more = {}, keyId = "key_1") {
    const { status, json } = await call("POST", `/api-keys/${keyId}/webhooks`, { url, events: ["*"], ...more });
    if (status !== 201) throw new Error(`no subscription: ${status} ${JSON.stringify(json)}`);
    return json.data;
  },
  event: async (id, keyId = "key_1") => (await call("GET", `/api-keys/${keyId}/events/${id}`)).json.data,
});

/**
 * Loopback may be called, the test authority is trusted, every limit is off, passwords cost little, and retries come soon,
 * unless `config` says otherwise.
 * @param transforms starts the processes for the transforms of the config
 * @param clock the relay's; one that a test moves must be moved for everything that waits
 */
export async function startRelay(
  config: RelayConfig = {},
  folder?: string,
  clock: Clock = systemClock(),
  transforms?: SpawnTransforms,
): Promise<TestRelay> {
  const dataDir = folder ?? (await mkdtemp(join(tmpdir(), "relay-e2e-")));
  const { ca } = await testAuthority();
  const caFile = join(dataDir, "test-ca.pem");
  await writeFile(caFile, ca);
  const plan = resolvePlan(
    {
      server: { host: "127.0.0.1", port: 0, shutdownMs: 2_000 },
      guard: { allow: ["127.0.0.1:*", "localhost:*"], ca: caFile },
      limits: { "*": false },
      abuse: false,
      auth: quickAccounts(),
      retry: { attempts: 5, firstDelayMs: 20, factor: 2, maxDelayMs: 1_000 },
      log: { level: "silent" },
      dataDir,
      ...config,
    },
    {
      configDir: dataDir,
      cwd: dataDir,
      settings: { masterKey: TEST_KEYS.master, signingKey: TEST_KEYS.signing, publishToken: TEST_KEYS.publishToken },
    },
  );
  const metrics = createMetrics();
  const relay = composeRelay(plan, { clock, log: createLog(plan.log.level), metrics, transforms, pages });
  const { url } = await relay.start();
  const agent = new Agent();
  const keys = makeKeys(TEST_KEYS);

  const token: TestRelay["token"] = ({ sub = "tester", keys: owned = ["*"], access, mfa = false } = {}) =>
    mintToken(keys, { sub, keys: owned, access, mfa, ttlMs: 600_000 }, clock);

  async function send(method: string, path: string, headers: Record<string, string>, body: unknown): Promise<Answered> {
    const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    const response = await request(url + path, { method, headers, body: text, dispatcher: agent });
    const answer = await response.body.text();
    const isJson = String(response.headers["content-type"]).includes("json");
    return {
      status: response.statusCode,
      headers: response.headers,
      text: answer,
      json: isJson ? JSON.parse(answer) : undefined,
    };
  }

  const call: TestRelay["call"] = async (method, path, options = {}) => {
    const bearer = options.token === undefined ? await token() : options.token;
    const headers: Record<string, string> = { ...options.headers };
    if (bearer !== null) headers["authorization"] ??= `Bearer ${bearer}`;
    if (options.body !== undefined) headers["content-type"] ??= "application/json";
    return await send(method, path, headers, options.body);
  };

  return {
    url,
    dataDir,
    token,
    call,
    ...shortcuts((method, path, body) => call(method, path, { body })),
    publish: (body, headers = {}) =>
      send(
        "POST",
        "/events",
        { authorization: `Bearer ${TEST_KEYS.publishToken}`, "content-type": "application/json", ...headers },
        body,
      ),
    stop: () => relay.stop(),
    async [Symbol.asyncDispose]() {
      await agent.destroy();
      await relay.stop();
      metrics.dispose();
      if (folder === undefined) await rm(dataDir, { recursive: true, force: true });
    },
  };
}
