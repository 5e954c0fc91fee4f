// From a config to a plan: every default, every key, and every problem at once.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  accounts,
  defineRelay,
  http,
  https,
  jwt,
  memory,
  redis,
  replay,
  retention,
  spool,
  sqlite,
  toFile,
  unstorage,
} from "../../config/index.ts";
import { NOTICE_TYPES } from "../../core/model/notice.ts";
import type { RelayConfig } from "../../config/index.ts";
import { ConfigError } from "../../config/problems.ts";
import { resolvePlan } from "../../config/validate.ts";
import { FRAME, problems } from "../support/config.ts";
import { throwing } from "../support/plugins.ts";

describe("the embedded default", () => {
  it("is what the docs say", () => {
    const plan = resolvePlan(defineRelay({}), FRAME);
    expect(plan).toMatchObject({
      dataDir: "/etc/relay/data",
      server: { host: "127.0.0.1", port: 8080, trustedProxies: [], shutdownMs: 9_000 },
      storage: { kind: "storage", name: "sqlite" },
      sources: [{ kind: "source", name: "http" }],
      transports: [{ kind: "transport", name: "https" }],
      auth: { kind: "auth", name: "accounts" },
      retry: { attempts: 5, firstDelayMs: 5_000, factor: 4, maxDelayMs: 3_600_000 },
      delivery: { timeoutMs: 10_000, concurrency: 512, holdMs: 30_000 },
      guard: { allow: [], ports: [443] },
      abuse: { factor: 5, suspendMs: 300_000, maxSuspendMs: 3_600_000 },
      stepUp: { acr: [], amr: ["mfa"], maxAgeMs: 300_000 },
      health: { breakerAfter: 20, breakerPauseMs: 60_000, breakerMaxPauseMs: 900_000, disableAfterMs: 432_000_000 },
      subscriptions: { perKey: 50 },
      intake: { maxPending: 0, maxBodyBytes: 67_108_864 },
      log: { level: "info" },
      jobs: [{ name: "retention", schedule: "0 3 * * *", deliveredAfterMs: 2_592_000_000 }],
      dashboard: true,
      portal: { name: "Relay", colors: {}, frameAncestors: [] },
      keys: {},
    });
    expect(plan.events).toBeUndefined();
    expect(plan.gateway).toBeUndefined();
    expect(plan.jobs[0]).not.toHaveProperty("failedAfterMs");
    expect(plan.limits["POST /api-keys/{keyId}/webhooks"]).toEqual({ perMinute: 15, per5s: 3 });
  });

  it("has jobs with the defaults of the docs", () => {
    expect(replay()).toEqual({
      kind: "job",
      name: "replay",
      schedule: "*/15 * * * *",
      olderThanMs: 600_000,
      maxAgeMs: 259_200_000,
      maxReplays: 24,
      limit: 1_000,
      perSecond: 50,
    });
    expect(retention({ deliveredAfterMs: undefined, failedAfterMs: 5_000 })).toMatchObject({
      deliveredAfterMs: undefined,
      failedAfterMs: 5_000,
    });
  });
});

describe("each key", () => {
  const keyed: readonly [string, RelayConfig, object][] = [
    ["dataDir", { dataDir: "/var/relay" }, { dataDir: "/var/relay" }],
    [
      "server",
      { server: { port: 0, trustedProxies: ["10.0.0.0/8", "::1"] } },
      { server: { port: 0, host: "127.0.0.1" } },
    ],
    ["storage", { storage: memory() }, { storage: { name: "memory" } }],
    ["sources", { sources: [http(), spool({ dir: "in" })] }, { sources: [{ name: "http" }, { name: "spool" }] }],
    ["no source at all", { sources: [] }, { sources: [] }],
    ["events", { events: ["a:b"] }, { events: ["a:b"] }],
    [
      "a schedule",
      { retry: { delaysMs: [5_000, 172_800_000] } },
      { retry: { attempts: 3, delaysMs: [5_000, 172_800_000] } },
    ],
    ["retry", { retry: { attempts: 1 } }, { retry: { attempts: 1, firstDelayMs: 5_000 } }],
    ["delivery", { delivery: { concurrency: 4 } }, { delivery: { concurrency: 4 } }],
    [
      "guard",
      { guard: { allow: ["10.2.0.0/16:8443", "hooks.corp.lan:*", "[fd00::/8]:8443"], nat64: ["64:ff9b::/96"] } },
      { guard: { ports: [443], nat64: ["64:ff9b::/96"] } },
    ],
    [
      "a limits row",
      { limits: { "GET /api-keys": { perMinute: 1, per5s: 1 } } },
      { limits: { "GET /api-keys": { perMinute: 1, per5s: 1 } } },
    ],
    [
      "a limits row for publishing",
      { limits: { "POST /events": { perMinute: 9, per5s: 3 } } },
      { limits: { "POST /events": { perMinute: 9, per5s: 3 } } },
    ],
    ["limits.check", { limits: { check: { token: "t" } } }, { limitsCheck: { token: "t" } }],
    ["abuse", { abuse: false }, { abuse: false }],
    ["abuse in part", { abuse: { factor: 2 } }, { abuse: { factor: 2, failures: 10 } }],
    ["stepUp", { stepUp: { acr: ["urn:x"] } }, { stepUp: { acr: ["urn:x"], amr: ["mfa"] } }],
    ["health", { health: false }, { health: false }],
    [
      "notify",
      { notify: { to: [{ url: "https://ops.example/hook" }], pending: 5 }, intake: { maxPendingPerKey: 9 } },
      { notify: { to: [{ url: "https://ops.example/hook", events: NOTICE_TYPES }], pending: 5, pendingPerKey: 5 } },
    ],
    ["subscriptions", { subscriptions: { perKey: 7 } }, { subscriptions: { perKey: 7 } }],
    ["intake", { intake: { maxPending: 10, reserveBytes: 5 } }, { intake: { maxPending: 10, reserveBytes: 5 } }],
    ["bodies", { intake: { maxBodyBytes: 2 ** 24 } }, { intake: { maxBodyBytes: 2 ** 24 } }],
    ["metrics", { metrics: { token: "t", port: 9_090 } }, { metrics: { token: "t", port: 9_090 } }],
    ["log", { log: { level: "silent" } }, { log: { level: "silent" } }],
    [
      "gateway",
      { gateway: { upstream: "http://up:9000" } },
      { gateway: { upstream: "http://up:9000", keyHeader: "X-API-Key" } },
    ],
    ["jobs", { jobs: [] }, { jobs: [] }],
    ["dashboard", { dashboard: false }, { dashboard: false, portal: false }],
    [
      "portal",
      { dashboard: false, portal: { name: "Acme", frameAncestors: ["https://app.example.com"] } },
      { dashboard: false, portal: { name: "Acme", colors: {}, frameAncestors: ["https://app.example.com"] } },
    ],
    [
      "signature",
      { signature: { headers: { "svix-id": "webhook-id" } } },
      { signature: { ed25519: false, headers: { "svix-id": "webhook-id" } } },
    ],
    ["transforms", { transforms: { slack: String } }, { transforms: { slack: String } }],
    [
      "transformLimits",
      { transformLimits: { memoryMb: 32 } },
      { transformLimits: { timeoutMs: 1_000, memoryMb: 32, workers: 2 } },
    ],
    [
      "undefined as left out",
      { server: undefined, log: { level: undefined }, limits: { "GET /api-keys": undefined } },
      { log: { level: "info" } },
    ],
  ];
  it.each(keyed)("%s reaches the plan", (_, config, part) => {
    expect(resolvePlan(config, FRAME)).toMatchObject(part);
  });

  it('switches all rows off with "*", but for those named beside it', () => {
    const { limits } = resolvePlan({ limits: { "*": false, "GET /api-keys": { perMinute: 1, per5s: 1 } } }, FRAME);
    const on = Object.entries(limits).filter(([, row]) => row !== false);
    expect(on).toEqual([["GET /api-keys", { perMinute: 1, per5s: 1 }]]);
  });
});

describe("a wrong config", () => {
  it("names targets of notify that are the same, and transforms that are not there", () => {
    const url = "https://ops.example/hook";
    expect(problems({ notify: { to: [{ url }, { url, events: ["relay:*"] }] } })).toEqual({
      "notify.to[1].url": "is given more than once",
    });
    expect(problems({ notify: { to: [{ url, transform: "chat" }] } })).toEqual({
      "notify.to[0].transform": "is not a transform of this config",
    });
    expect(problems({ notify: { to: [{ url, transform: "chat" }] }, transforms: { chat: () => ({}) } })).toEqual({});
  });

  it("is refused when a header of one's own could not be sent, or repeats none of the relay's", () => {
    const headers = {
      "X-Mine": "X-Theirs",
      "webhook-id": "X-Relay-Event",
      "Content-Type": "webhook-id",
      "a b": "webhook-id",
      "X-Twice": "webhook-id",
      "x-twice": "webhook-id",
    };
    expect(problems({ signature: { headers: 5 } })).toEqual({ "signature.headers": "must be an object: { … }" });
    expect(problems({ signature: { headers } })).toEqual({
      'signature.headers["X-Mine"]': expect.stringMatching(/^must be one of X-Relay-Webhook-Signature, /),
    });
    expect(problems({ signature: { headers: { ...headers, "X-Mine": "webhook-id" } } })).toEqual({
      'signature.headers["webhook-id"]': "is a header that a delivery or its connection has already",
      'signature.headers["Content-Type"]': "is a header that a delivery or its connection has already",
      'signature.headers["a b"]': "is not a header name",
      'signature.headers["x-twice"]': "is given more than once",
    });
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`X-${i}`, "webhook-id"]));
    expect(problems({ signature: { headers: many } })).toEqual({ "signature.headers": "may be at most 16" });
  });

  it("is refused when a transform is no function that could be called by its name", () => {
    const transforms = { slack: "text", "2nd": () => ({}), later: async () => ({}), fine: () => ({}) };
    expect(problems({ transforms, transformLimits: { workers: 1, timeoutMs: 60_000 } })).toEqual({
      "transforms.slack": "must be a function: (event) => …",
      'transforms["2nd"]': "must be named by a letter, then letters, digits, _ and -, at most 64",
      "transforms.later": "must not be async: it returns its result at once",
      "transformLimits.workers": "must be a whole number from 2 to 64",
      "transformLimits.timeoutMs": "must be a whole number of milliseconds from 10 to 10000",
    });
    expect(problems({ transforms: [() => ({})] })).toEqual({
      transforms: "must be an object of functions: { name: (event) => … }",
    });
  });

  it("is refused when two connections of one kind have the same name", () => {
    const connection = (name: string) => toFile({ name, dir: name });
    expect(problems({ transports: [https(), connection("a"), connection("b"), connection("a")] })).toEqual({
      "transports[3].name": "is the name of an earlier connection: another file connection needs another name",
    });
    expect(problems({ transports: [toFile({ name: "No", dir: "" })] })).toEqual({
      "transports[0].name": "must be 1 to 63 lower-case letters, digits and -, such as bus",
      "transports[0].dir": "must be the path of a folder",
    });
  });

  it("is refused with every problem at once, each with its path", () => {
    const found = problems({
      server: { port: 70_000, hots: "x", trustedProxies: ["10.0.0.0/99"], tls: { cert: "no.pem" } },
      storage: "sqlite",
      sources: [http({ tokens: [""] }), 7],
      transports: [],
      events: ["ok", "relay:mine", "a b"],
      retry: { attempts: 6, factor: Number.NaN },
      delivery: { timeoutMs: 1.5 },
      guard: { allow: ["10.0.0.0/8:0"], ports: [], ca: "./nowhere.pem" },
      limits: { "GET /api-key": { perMinute: 1, per5s: 1 }, "GET /api-keys": { perMinute: 0 }, "*": true, check: {} },
      abuse: true,
      health: { breakerAfter: 0 },
      notify: { to: [{ url: "ops" }, { url: "https://a", events: ["deposit:*"], transform: "2nd" }] },
      metrics: { token: "" },
      log: { level: "loud" },
      gateway: { upstream: "ftp://x" },
      jobs: [replay({ schedule: "61 * * * *" }), { name: "tidy" }, retention({ deliveredAfterMs: undefined })],
      dashbord: true,
      auth: jwt({ secret: "short", algorithms: ["HS256"], issuer: "i", audience: "a" }),
    });
    const wrong = [
      "abuse auth.secret dashbord delivery.timeoutMs events[1] events[2] gateway.upstream guard.allow[0]",
      "guard.ca guard.ports health.breakerAfter jobs[0].schedule jobs[1] jobs[2] limits.check.token log.level",
      "metrics.token notify.to[0].url notify.to[1].events[0] notify.to[1].transform retry.attempts retry.factor",
      "server.hots server.port server.tls.cert server.tls.key server.trustedProxies[0] sources[0].tokens[0]",
      "sources[1] storage transports",
    ].flatMap((paths) => paths.split(" "));
    const rows = [
      'limits["*"]',
      'limits["GET /api-key"]',
      'limits["GET /api-keys"].per5s',
      'limits["GET /api-keys"].perMinute',
    ];
    expect(Object.keys(found).sort()).toEqual([...wrong, ...rows].sort());
    expect(found["server.hots"]).toContain('did you mean "host"');
    expect(found["dashbord"]).toContain('did you mean "dashboard"');
    expect(found['limits["GET /api-key"]']).toContain('did you mean "GET /api-keys"');
    expect(found["server.port"]).toBe("must be a whole number from 0 to 65535");
  });

  it.each([
    ["a schedule beside a backoff", { retry: { attempts: 3, delaysMs: [1_000] } }, "retry.delaysMs"],
    ["a schedule of more than three days", { retry: { delaysMs: [200_000_000, 60_000_000] } }, "retry.delaysMs"],
    ["a schedule without a wait", { retry: { delaysMs: [] } }, "retry.delaysMs"],
    ["a schedule of six attempts", { retry: { delaysMs: [10, 10, 10, 10, 10] } }, "retry.delaysMs"],
    ["waits that shrink", { retry: { firstDelayMs: 60_000, maxDelayMs: 1_000 } }, "retry.maxDelayMs"],
    [
      "more per subscription than in all",
      { delivery: { concurrency: 4, perSubscription: 5 } },
      "delivery.perSubscription",
    ],
    ["a replay of nothing", { jobs: [replay({ olderThanMs: 10_000, maxAgeMs: 10_000 })] }, "jobs[0].olderThanMs"],
    ["a breaker that never grows", { health: { breakerPauseMs: 900_001 } }, "health.breakerMaxPauseMs"],
    ["a storage for a source", { sources: [memory()] }, "sources[0]"],
    ["two http sources, whose paths are the same", { sources: [http(), spool({ dir: "in" }), http()] }, "sources[2]"],
    ["a host with a blank", { server: { host: "0.0.0.0 " } }, "server.host"],
    ["a host that is a URL", { server: { host: "http://127.0.0.1" } }, "server.host"],
    ["a factory that was not called", { storage: sqlite }, "storage"],
    ["an inherited key", Object.create({ server: {} }) as object, ""],
  ])("is refused for %s", (_, config, path) => {
    expect(Object.keys(problems(config))).toEqual(path === "" ? [] : [path]);
  });

  it("is refused where a promise, a Map or a Set stands for an object, as all in it would count as left out", () => {
    const object = "must be an object: { … }";
    expect(problems(Promise.resolve({ server: { port: 1 } }))).toEqual({ "": object });
    expect(problems(new Map([["server", {}]]))).toEqual({ "": object });
    const given = { server: new Map([["port", 1]]), health: new Set(), abuse: new Date(), retry: Promise.resolve({}) };
    expect(problems(given)).toEqual({ server: object, health: object, abuse: object, retry: object });
    expect(problems({ events: new Set(["a:b"]) })["events"]).toContain("must be a list of names");
    expect(problems({ transforms: new Map() })["transforms"]).toContain("must be an object of functions");
    expect(problems(Object.assign(Object.create(null) as object, { server: { port: 1 } }))).toEqual({});
  });

  it("is refused when no second factor could ever count", () => {
    const message = expect.stringContaining("must name at least one") as string;
    expect(problems({ stepUp: { amr: [] } })).toEqual({ "stepUp.amr": message });
    expect(problems({ stepUp: { amr: [], acr: ["urn:strong"] } })).toEqual({});
  });

  it("names the option where a storage is given none, or one of a wrong form", () => {
    const redisOf = redis as (options?: unknown) => ReturnType<typeof redis>;
    const unstorageOf = unstorage as (driver?: unknown) => ReturnType<typeof unstorage>;
    expect(problems({ storage: redisOf() })).toEqual({
      "storage.url": "needs exactly one of url, sentinels and cluster",
    });
    expect(Object.keys(problems({ storage: redisOf({ sentinels: "10.0.0.1:26379" }) }))).toEqual(["storage.sentinels"]);
    expect(Object.keys(problems({ storage: redisOf({ cluster: [null] }) }))).toEqual(["storage.cluster[0]"]);
    expect(problems({ storage: unstorageOf() })["storage.driver"]).toContain("the driver cannot be written to");
  });

  it("never shows a value that may be secret", () => {
    const config = {
      metrics: { token: "hush hush" },
      limits: { check: { token: "hush hush" } },
      gateway: { upstream: "http://u:hush@x" },
    };
    expect(JSON.stringify(problems(config))).not.toContain("hush");
  });

  it("tells problems of the environment together with its own", () => {
    const settings = { logLevel: "loud", masterKey: "short" };
    const found = problems({ dashboard: 1 }, { ...FRAME, settings, problems: [{ path: "RELAY_PORT", message: "no" }] });
    expect(Object.keys(found).sort()).toEqual(["RELAY_LOG_LEVEL", "RELAY_MASTER_KEY", "RELAY_PORT", "dashboard"]);
  });

  it("comes to a ConfigError with exit code 78 and nothing else, whatever it is", () => {
    const keys = Object.keys(keysOfConfig);
    const kinds = { withBigInt: true, withDate: true, withMap: true, withSet: true };
    const nasty = fc.oneof(
      fc.anything({ ...kinds, withNullPrototype: true, withSparseArray: true }),
      fc.constant(new Proxy({}, { get: throwing(), ownKeys: throwing(new RangeError("no")) })),
      fc.constant(Object.defineProperty({}, "kind", { get: throwing(), enumerable: true })),
      fc.constant(Symbol("s")),
      fc.func(fc.anything()),
    );
    const section = fc.dictionary(fc.oneof(fc.constantFrom(...Object.values(keysOfConfig).flat()), fc.string()), nasty);
    const config = fc.dictionary(fc.oneof(fc.constantFrom(...keys), fc.string()), fc.oneof(nasty, section));
    fc.assert(
      fc.property(fc.oneof(nasty, config), (value) => {
        try {
          resolvePlan(value, FRAME);
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          expect((error as ConfigError).exitCode).toBe(78);
          expect((error as ConfigError).problems.length).toBeGreaterThan(0);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("what is set from outside", () => {
  it("wins over the file: host, port, data folder, log level", () => {
    const config = { dataDir: "./here", server: { host: "::", port: 1, shutdownMs: 5 }, log: { level: "warn" } };
    const settings = { host: "0.0.0.0", port: 2, dataDir: "there", logLevel: "error" };
    expect(resolvePlan(config, { ...FRAME, settings })).toMatchObject({
      dataDir: "/home/me/there",
      server: { host: "0.0.0.0", port: 2, shutdownMs: 5 },
      log: { level: "error" },
    });
  });

  it("gives keys, and an issuer of one's own where the file names none", () => {
    const key = Buffer.alloc(32, 7).toString("base64");
    const settings = { masterKey: key, signingKey: key, publishToken: "p", jwtSecret: "x".repeat(32) };
    const plan = resolvePlan({}, { ...FRAME, settings });
    expect(plan.keys).toEqual({ master: key, signing: key, publishToken: "p" });
    expect(plan.auth.name).toBe("jwt");
    expect(resolvePlan({ auth: accounts() }, { ...FRAME, settings }).auth.name).toBe("accounts");
  });
});

describe("storage that nodes share", () => {
  const url = "redis://127.0.0.1:6379";
  const key = Buffer.alloc(32, 7).toString("base64");

  it("is chosen by RELAY_REDIS_URL over another one in the file", () => {
    const settings = { redisUrl: url, masterKey: key, signingKey: key, publishToken: "p" };
    expect(resolvePlan({ storage: memory() }, { ...FRAME, settings }).storage.name).toBe("redis");
    const own = redis({ url, prefix: "mine" });
    expect(resolvePlan({ storage: own }, { ...FRAME, settings }).storage).toBe(own);
    expect(problems({}, { ...FRAME, settings: { ...settings, redisUrl: "http://x" } })).toHaveProperty(
      "RELAY_REDIS_URL",
    );
  });

  it("refuses leases that an attempt may outlast, and names both settings", () => {
    const settings = { masterKey: key, signingKey: key, publishToken: "p" };
    const frame = { ...FRAME, settings };
    const found = problems({ storage: redis({ url, leaseMs: 34_999 }), delivery: { timeoutMs: 5_000 } }, frame);
    expect(found["storage.leaseMs"]).toContain("at least 35000");
    expect(found["storage.leaseMs"]).toContain("delivery.timeoutMs (5000)");
    for (const leaseMs of [35_000, undefined])
      expect(resolvePlan({ storage: redis({ url, leaseMs }) }, frame).storage.name).toBe("redis");
  });

  it("wants all three keys given", () => {
    const shared = { ...memory(), shared: true };
    const found = problems({ storage: shared }, { ...FRAME, settings: { masterKey: key } });
    expect(Object.keys(found)).toEqual(["RELAY_SIGNING_KEY", "RELAY_PUBLISH_TOKEN"]);
  });
});

it("takes every transport that is handed in", () => {
  expect(
    resolvePlan({ transports: [https(), { kind: "transport", name: "bus", setup: () => ({}) }] }, FRAME).transports,
  ).toHaveLength(2);
});

const keysOfConfig: Record<string, string[]> = {
  dataDir: [],
  server: ["host", "port", "trustedProxies", "tls", "shutdownMs"],
  storage: ["kind", "name", "setup"],
  sources: [],
  transports: [],
  auth: [],
  events: [],
  retry: ["attempts", "firstDelayMs", "factor", "maxDelayMs", "delaysMs"],
  delivery: ["timeoutMs", "concurrency"],
  guard: ["allow", "nat64", "ports", "ca"],
  limits: ["*", "check", "GET /api-keys"],
  abuse: ["factor"],
  stepUp: ["acr"],
  health: ["breakerAfter"],
  subscriptions: ["perKey"],
  notify: ["to", "pending"],
  intake: ["maxPending", "maxBodyBytes", "reserveBytes"],
  metrics: ["token"],
  log: ["level"],
  gateway: ["upstream", "keyHeader"],
  jobs: ["kind", "name"],
  dashboard: [],
  portal: ["url", "name", "logo", "colors", "frameAncestors"],
};

describe("the schedule of a job", () => {
  it.each([
    ["*/60 * * * *", true],
    ["*/60 */60 */24 */31 */12 */7", true],
    ["*/70 * * * *", false],
    ["1,5-30/90 * * * *", false],
    ["0 */25 * * *", false],
    ["0 0 */32 * *", false],
    ["0 0 1 */13 *", false],
    ["0 0 * * */8", false],
    ["*/61 0 0 * * *", false],
  ])("%s has no step beyond the values of its field: %s", (schedule, right) => {
    const found = problems({ jobs: [replay({ schedule })] });
    expect(Object.keys(found)).toEqual(right ? [] : ["jobs[0].schedule"]);
  });
});
