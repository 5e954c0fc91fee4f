// The limits of a whole relay over its real HTTP API, on a clock that the test moves: every timed sequence, and what an
// attacker would try.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ABUSE } from "../../config/defaults.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { StorageError } from "../../core/model/errors.ts";
import { testClock, turn } from "../support/clock.ts";
import { ask } from "../support/ask.ts";
import type { Got } from "../support/ask.ts";
import { startUpstream } from "../support/gateway.ts";
import type { Upstream } from "../support/gateway.ts";
import { startRelay } from "../support/relay.ts";
import type { TestRelay } from "../support/relay.ts";
import { LIMITS_BEGIN, limitSequences, type LimitVector } from "../support/vectors.ts";

/** One endpoint of each kind for every pair of limits that the sequences know. */
const ENDPOINTS: Readonly<Record<string, { readonly managed: string; readonly v1: string }>> = {
  "15/3": { managed: "GET /api-keys", v1: "POST /v1/qr/create" },
  "10/3": { managed: "GET /event-types", v1: "POST /v1/deposit/create" },
  "6/2": { managed: "GET /api-keys/{keyId}/webhooks", v1: "POST /v1/withdraw/create" },
};
const limits = Object.fromEntries(
  Object.entries(ENDPOINTS).flatMap(([pair, { managed, v1 }]) => {
    const [perMinute = 0, per5s = 0] = pair.split("/").map(Number);
    return [managed, v1].map((name) => [name, { perMinute, per5s }]);
  }),
);
const CHECK = { token: "the-proxy" };
const T0 = LIMITS_BEGIN * 1_000;

const clock = testClock(T0);
let upstream: Upstream;
let relay: TestRelay;
let port = 0;
let answer: { readonly status: number; readonly headers: Record<string, string> } = { status: 200, headers: {} };
beforeAll(async () => {
  upstream = await startUpstream((_req, res) => void res.writeHead(answer.status, answer.headers).end("{}"));
  relay = await startRelay(
    {
      storage: memory(),
      abuse: {},
      limits: { ...limits, check: CHECK } as never,
      gateway: { upstream: upstream.url },
      server: { host: "127.0.0.1", port: 0, trustedProxies: ["127.0.0.1"], shutdownMs: 3_600_000 },
    },
    undefined,
    clock,
  );
  port = Number(new URL(relay.url).port);
});
afterAll(async () => {
  await ended(Promise.resolve(relay[Symbol.asyncDispose]()), clock);
  await upstream[Symbol.asyncDispose]();
});

/** Moves time on, in leaps that let nothing of the relay's own pile up. */
const pass = (ms: number): Promise<void> => clock.advance(ms);

type Way = "management" | "/v1" | "/limits/check";
let nobody = 0;

/** Someone who has never asked before, from an address of their own, at a whole second. */
async function newcomer(way: Way, vector: LimitVector): Promise<() => Promise<Got>> {
  await pass(1_000 - (clock.now() % 1_000));
  const { managed, v1 } = ENDPOINTS[`${vector.config.sustained.limit}/${vector.config.burst.limit}`] as {
    managed: string;
    v1: string;
  };
  const who = `newcomer-${nobody++}`;
  const from = { "X-Forwarded-For": `2001:db8:${nobody.toString(16)}::1` };
  const [method, path] = (way === "management" ? managed : v1).replace("{keyId}", "key_1").split(" ") as [
    string,
    string,
  ];
  if (way === "management") {
    return async () => {
      // A new one each time: tokens end, and what is counted is the subject.
      const token = await relay.token({ sub: who });
      return await ask(port, method, path, { headers: { ...from, Authorization: `Bearer ${token}` } });
    };
  }
  if (way === "/v1") return () => ask(port, method, path, { headers: { ...from, "X-API-Key": who } });
  const about = { "X-Original-Method": method, "X-Original-URI": path, "X-API-Key": who };
  return () =>
    ask(port, "GET", "/limits/check", { headers: { ...from, ...about, Authorization: `Bearer ${CHECK.token}` } });
}

describe("the timed sequences, through", () => {
  for (const way of ["management", "/v1", "/limits/check"] as const) {
    for (const vector of limitSequences.filter(({ id }) => id !== "RL-28")) {
      it(`${way}: ${vector.id}: ${vector.name}`, async () => {
        const asks = await newcomer(way, vector);
        const t0 = clock.now();
        for (const { t_ms, expect: wanted } of vector.requests) {
          await pass(t0 + t_ms - clock.now());
          const got = await asks();
          const { status, code, ...headers } = wanted;
          const seen = Object.fromEntries(
            Object.keys(headers).map((name) => {
              const value = Number(got.headers[name.toLowerCase()]);
              // Resets are told in absolute time; the sequence begins elsewhere.
              return [name, name.endsWith("-Reset") ? value - t0 / 1_000 + LIMITS_BEGIN : value];
            }),
          );
          expect({ t_ms, status: got.status, code: got.json.code ?? null, ...seen }).toEqual({
            t_ms,
            status,
            code,
            ...headers,
          });
          const lonely = got.rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
          expect(new Set(lonely).size).toBe(lonely.length);
          if (got.status === 429) {
            expect(got.headers["content-type"]).toBe("application/problem+json");
            expect(String(got.json["retryAfter"])).toBe(got.headers["retry-after"]);
          } else expect(got.headers["retry-after"]).toBeUndefined();
        }
      });
    }
  }

  it("/v1: RL-28: client fault outranks back-pressure, longest wait wins", async () => {
    const vector = limitSequences.find(({ id }) => id === "RL-28") as LimitVector;
    const asks = await newcomer("/v1", vector);
    const other = await newcomer("/v1", vector);
    for (const { backpressure_ms, expect: wanted } of vector.requests) {
      if (backpressure_ms !== undefined) {
        answer = { status: 503, headers: { "Retry-After": String(backpressure_ms / 1_000) } };
        expect((await other()).json.code).toBe("PROVIDER_BACKPRESSURE");
      }
      const got = await asks();
      answer = { status: 200, headers: {} };
      const retryAfter = got.headers["retry-after"];
      expect([got.status, got.json.code ?? null, retryAfter === undefined ? undefined : Number(retryAfter)]).toEqual([
        wanted["status"],
        wanted["code"],
        wanted["Retry-After"],
      ]);
    }
  });
});

const hooks = "/api-keys/key_1/webhooks";
const left = (got: { readonly headers: Got["headers"] }): readonly number[] =>
  ["x-ratelimit-remaining", "x-burst-remaining"].map((name) => Number(got.headers[name]));

describe("what counts", () => {
  it("is every answer after authentication, whatever it is", async () => {
    const token = await relay.token({ sub: "counts", keys: ["key_1"] });
    const made = await relay.call("POST", hooks, { token, body: { url: "https://127.0.0.1/", events: ["a:b"] } });
    const unreadable = await relay.call("POST", hooks, { token, body: "{" });
    const foreign = await relay.call("POST", "/api-keys/key_2/webhooks", { token, body: {} });
    const fourth = await relay.call("POST", hooks, { token, body: { url: "https://127.0.0.1/", events: ["a:b"] } });
    expect([made, unreadable, foreign, fourth].map(({ status }) => status)).toEqual([201, 400, 400, 429]);
    expect([made, unreadable, foreign].map(left)).toEqual([
      [14, 2],
      [13, 1],
      [12, 0],
    ]);
  });

  it("is neither what has no limit, nor what leads nowhere, nor what is not authenticated", async () => {
    await pass(60_000);
    const token = await relay.token({ sub: "uncounted" });
    const headers = { Authorization: `Bearer ${token}` };
    for (const [method, path, status] of [
      ["GET", "/healthz", 200],
      ["GET", "/readyz", 200],
      ["OPTIONS", "/api-keys", 405],
      ["DELETE", "/api-keys", 405],
      ["GET", "/api-keys/", 404],
      ["GET", "/API-KEYS", 404],
    ] as const) {
      const got = await ask(port, method, path, { headers });
      expect([got.status, got.headers["x-ratelimit-limit"]], path).toEqual([status, undefined]);
    }
    for (let i = 0; i < 20; i++) {
      const forged = await ask(port, "GET", "/api-keys", {
        headers: { Authorization: `Bearer ${token.slice(0, -4)}AAAA`, "X-Forwarded-For": "198.51.100.1" },
      });
      expect([forged.status, forged.headers["x-ratelimit-limit"]]).toEqual([401, undefined]);
    }
    expect(left(await ask(port, "GET", "/api-keys", { headers }))).toEqual([14, 2]);
  });

  it("is each endpoint by itself, and each subject, whatever its address or token is", async () => {
    const [a, again, b] = [
      await relay.token({ sub: "subject-a" }),
      await relay.token({ sub: "subject-a", mfa: true }),
      await relay.token({ sub: "subject-b" }),
    ];
    const get = (token: string, path: string): Promise<Got> =>
      ask(port, "GET", path, {
        headers: { Authorization: `Bearer ${token}`, "X-Forwarded-For": `198.51.100.${(nobody++ % 200) + 1}` },
      });
    expect(left(await get(a, "/api-keys"))).toEqual([14, 2]);
    expect(left(await get(again, "/api-keys"))).toEqual([13, 1]);
    expect(left(await get(b, "/api-keys"))).toEqual([14, 2]);
    expect(left(await get(a, "/event-types"))).toEqual([9, 2]);
    // One row for all keys: a second key is no second quota.
    expect(left(await get(a, "/api-keys/key_1/webhooks"))).toEqual([5, 1]);
    expect(left(await get(a, "/api-keys/key_2/webhooks"))).toEqual([4, 0]);
    // Spelled otherwise it is the same endpoint.
    expect((await get(a, "/api-keys/key%5F1/webhooks?x=1")).status).toBe(429);
    expect(
      (await ask(port, "HEAD", "/api-keys/k/webhooks", { headers: { Authorization: `Bearer ${a}` } })).status,
    ).toBe(429);
  });
});

describe("a clock that is set", () => {
  it("forwards by a day gives no quota back early, and backwards by an hour locks nobody out", async () => {
    for (const step of [86_400_000, -3_600_000]) {
      const sub = `time-${step}`;
      const get = async (): Promise<Got> =>
        ask(port, "GET", "/api-keys", { headers: { Authorization: `Bearer ${await relay.token({ sub })}` } });
      for (let i = 0; i < 3; i++) expect((await get()).status).toBe(200);
      await clock.step(step);
      await turn();
      const refused = await get();
      expect([refused.status, refused.json.code, refused.headers["retry-after"]]).toEqual([429, "BURST_EXCEEDED", "5"]);
      expect(Number(refused.headers["x-ratelimit-reset"])).toBe(Math.ceil((clock.now() + 60_000) / 1_000));
      await pass(5_000);
      expect(left(await get())).toEqual([11, 2]);
      await pass(55_000);
      expect(left(await get())).toEqual([14, 2]);
    }
  });
});

describe("suspension", () => {
  it("outlives a restart, and waiting it out works, on either side of it", async () => {
    const folder = await mkdtemp(join(tmpdir(), "relay-limits-"));
    const own = testClock(T0 + 500_000_000);
    // Long by the clock that is moved: a stop is to be waited for, not given up.
    const server = { host: "127.0.0.1", port: 0, shutdownMs: 3_600_000 };
    const config = { server, abuse: {}, limits: { "GET /api-keys": { perMinute: 2, per5s: 2 } } } as const;
    const get = async (one: TestRelay): Promise<Got> =>
      ask(Number(new URL(one.url).port), "GET", "/api-keys", {
        headers: { Authorization: `Bearer ${await one.token({ sub: "pressing" })}` },
      });
    const first = await startRelay(config, folder, own);
    let last = await get(first);
    for (let i = 0; i < 11; i++) last = await get(first);
    expect([last.json.code, last.headers["retry-after"]]).toEqual(["ABUSE_SUSPEND", String(ABUSE.suspendMs / 1_000)]);
    await ended(first.stop(), own);
    await own.advance(100_000 - ((own.now() - T0) % 1_000));
    const second = await startRelay(config, folder, own);
    const again = await get(second);
    expect([again.status, again.json.code]).toEqual([429, "ABUSE_SUSPEND"]);
    expect(Number(again.headers["retry-after"])).toBeLessThanOrEqual(200);
    await own.advance(Number(again.headers["retry-after"]) * 1_000);
    expect((await get(second)).status).toBe(200);
    await ended(second.stop(), own);
    await rm(folder, { recursive: true, force: true });
  });
});

/** Waits for something of a relay whose clock has to be moved for it to end. */
async function ended(promise: Promise<unknown>, time: ReturnType<typeof testClock>): Promise<void> {
  let done = false;
  const settled = promise.then(() => (done = true));
  while (!done) await time.advance(1);
  await settled;
}

describe("a fault of ours", () => {
  it("gives the slot back, and the headers say so", async () => {
    let broken = false;
    const inner = memory();
    const storage = {
      ...inner,
      async setup(...args: Parameters<typeof inner.setup>) {
        const made = await inner.setup(...args);
        const commit: typeof made.commit = async (changes) => {
          if (broken) throw new StorageError("unavailable", "the test says so");
          await made.commit(changes);
        };
        return { ...made, commit };
      },
    };
    await using one = await startRelay({ storage, limits: {} });
    const body = { url: "https://127.0.0.1/", events: ["a:b"] };
    expect(left(await one.call("POST", hooks, { body }))).toEqual([14, 2]);
    broken = true;
    for (let i = 0; i < 5; i++) {
      const got = await one.call("POST", hooks, { body });
      expect([got.status, got.json.code, ...left(got)]).toEqual([503, "STORAGE_UNAVAILABLE", 14, 2]);
    }
    broken = false;
    expect(left(await one.call("POST", hooks, { body }))).toEqual([13, 1]);
  });
});
