// The relay says to the world what it said before: every answer of its API, what a receiver gets, help, pages.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";
import { CHECK_TOKEN, startUpstream, type Upstream } from "../support/gateway.ts";
import { askRaw, compare, inOrder, steady, type Asked, type Record as Told } from "../support/record.ts";
import { startReceiver, type Receiver, type Step } from "../support/receiver.ts";
import { TEST_KEYS, type TokenClaims } from "../support/relay.ts";
import { until } from "../support/until.ts";

const PASSWORD = "correct horse battery";
const METRICS = "the-scraper-asks-with-this";
const HOOKS = "/api-keys/{keyId}/webhooks";
const HOOK = `${HOOKS}/{subscriptionId}`;
const EVENTS = "/api-keys/{keyId}/events";
const EVENT = `${EVENTS}/{eventId}`;
const TRIED = `${EVENT}/deliveries/{subscriptionId}`;
const CONFIG = `
  limits: { check: { token: "${CHECK_TOKEN}" } }, metrics: { token: "${METRICS}" },
  events: {
    "order.paid": { description: "Somebody has paid.", schema: { type: "object", required: ["n"] }, example: { n: 1 } },
    "order.sent": {}, "order.lost": {}, "order.late": {}, "order.spare": {}, "order.busy": {},
  },
  transforms: { slack: ({ type, data }: any) => ({ text: \`\${type}: \${data.n}\` }) },
  retry: { attempts: 2, firstDelayMs: 10, maxDelayMs: 10 },
  auth: quickAccounts(),
`;
const QUICK = new URL("../support/quick-accounts.ts", import.meta.url).href;

const ANSWERS: Readonly<Record<string, Step>> = {
  "/gone": 410,
  "/fails": { do: "reply", status: 500, body: "not today" },
  "/busy": { do: "reply", status: 429, headers: { "Retry-After": "600" } },
};

interface Sent extends Omit<Asked, "body"> {
  readonly body?: unknown;
  /** A token, claims of one, or none at all. @default that of a caller of its own, who may do everything */
  readonly token?: string | TokenClaims | null;
  /** Parts of the path, beside `key_1` and what has been made so far. */
  readonly at?: Readonly<Record<string, string>>;
  readonly query?: string;
  /** Keeps figures that differ from run to run, and the length of lists, out of the record. */
  readonly shape?: true;
  /** The body is a page, which has other tests. */
  readonly page?: true;
}

/** A relay, and everything that it was asked and answered. */
function recorder(relay: ChildRelay) {
  const told: Told = new Map();
  const names = new Map<string, string>();
  const made: Record<string, string> = { keyId: "key_1" };
  const succeeded = new Set<string>();
  const keys = makeKeys(TEST_KEYS);
  let readers = 0;
  const mint = ({ sub = "tester", keys: owned = ["*"], access, mfa = false }: TokenClaims): Promise<string> =>
    mintToken(keys, { sub, keys: owned, access, mfa, ttlMs: 600_000 }, systemClock());

  async function send(method: string, path: string, what: string, options: Sent = {}) {
    const { token = {}, at = {}, query, body, shape, page, headers = {}, ...rest } = options;
    const title = `${method} ${path}: ${what}`;
    expect([...told.keys()]).not.toContain(title);
    // Limits are counted by caller: each request is the first of its own.
    const sub = `who asks for ${method} ${path}, ${what}`;
    const bearer = token === null || typeof token === "string" ? token : await mint({ sub, ...token });
    const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => at[name] ?? made[name] ?? `no_${name}`);
    const line = `${method} ${target}${query === undefined ? "" : `?${query}`} HTTP/1.1`;
    const sent = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    const answer = await askRaw(relay.url, line, {
      ...rest,
      headers: {
        ...(bearer !== null && { Authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(sent !== undefined && { body: sent }),
    });
    const end = answer.indexOf("\n\n");
    const [head, text] = [answer.slice(0, end), answer.slice(end + 2)];
    const status = Number(head.split(" ")[1]);
    if (status < 300) succeeded.add(`${method} ${path}`);
    const kept = page ? "<page>" : shape ? JSON.stringify(shapeOf(JSON.parse(text))) : inOrder(steady(text, names));
    const shown = Object.entries(headers).map(([name, value]) => `> ${name}: ${value}\n`);
    const asked = sent === undefined ? "" : `> ${sent.length > 2_000 ? `<${sent.length} characters>` : sent}\n`;
    told.set(title, steady(`> ${line}\n${shown.join("")}${asked}${head}\n\n${kept}`, names));
    const json: ReturnType<typeof JSON.parse> =
      /^content-type: application.json$/im.test(head) && text !== "" ? JSON.parse(text) : undefined;
    return { status, head, text, json };
  }

  return {
    told,
    names,
    made,
    succeeded,
    send,
    mint,
    /** Remembers an id under a name, and for the paths of later requests. */
    name(kind: string, id: string, name: string): string {
      names.set(id, name);
      return (made[kind] = id);
    },
    /** Reads, off the record, as a caller of its own. */
    async read(path: string) {
      const bearer = await mint({ sub: `reader ${++readers}` });
      const answer = await askRaw(relay.url, `GET ${path} HTTP/1.1`, {
        headers: { Authorization: `Bearer ${bearer}` },
      });
      expect(answer).toMatch(/^HTTP\/1.1 200 /);
      const json: ReturnType<typeof JSON.parse> = JSON.parse(answer.slice(answer.indexOf("\n\n")));
      return json.data;
    },
    /** Compares what was told since the last time with the file. */
    close(file: string): void {
      const now = new Map(told);
      told.clear();
      compare(file, now);
    },
  };
}

/** Numbers and texts without their values; of a list, its first. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 1).map(shapeOf);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shapeOf(one)]));
  return typeof value === "number" ? "<number>" : value;
}

const folder = testFolder();
let relay: ChildRelay;
let receiver: Receiver;
let upstream: Upstream;
let all: ReturnType<typeof recorder>;
beforeAll(async () => {
  receiver = await startReceiver({
    script: ({ path }) => ANSWERS[path] ?? 200,
  });
  upstream = await startUpstream();
  relay = await startChild(folder, {
    head: `import { quickAccounts } from "${QUICK}";`,
    config: `${CONFIG} gateway: { upstream: "${upstream.url}" },`,
  });
  all = recorder(relay);
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

/** Resolves when the event is no longer pending. */
const ended = (id: string): Promise<void> =>
  until(async () => (await all.read(`/api-keys/key_1/events/${id}`)).status !== "pending");
/** Resolves when the delivery has an attempt in its newest cycle. */
const tried = (id: string, subscriptionId = ""): Promise<void> =>
  until(async () => {
    const { deliveries } = await all.read(`/api-keys/key_1/events/${id}`);
    return (
      deliveries.find((one: { subscriptionId: string }) => one.subscriptionId === subscriptionId).attempts.length > 0
    );
  });
const url = (path: string): string => receiver.url(path);

/** The library of the command line prints help by itself. */
async function helpOf(words: readonly string[]): Promise<string> {
  const printed: string[] = [];
  const spies = (["log", "info"] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation((line: string) => void printed.push(line)),
  );
  const { code, stdout } = await runHere([...words, "--help"]);
  for (const spy of spies) spy.mockRestore();
  return `${stdout}${printed.join("\n")}\n→ ${code}`;
}

/** Rows that come or go by the clock. */
const PASSING = /^\["p","(?:stats|overlap|tick):/;

/** A stored row, without what is random in it: checksums, hashes, what is sealed, and figures. */
const storedLine = (line: string): string =>
  steady(line, all.names)
    .replaceAll(/\b1[78]\d{11}\b/g, (ms) => (Number(ms) > Date.now() ? "<later>" : ms))
    .replaceAll(/(sum\\":\\"|^\["p","(?:held|sequence|passed):.* )[0-9a-f]{8}\b/g, "$1<checksum>")
    .replaceAll(/(durationMs\\":)[\d.]+/g, "$1<number>")
    .replaceAll(/\bv1\.[\w-]+/g, "v1.<sealed>")
    .replaceAll(/(scrypt\$4\$8\$1\$)[\w-]+\$/g, "$1<salt>$")
    .replaceAll(/(lastStep\\":|"lines":)\d+/g, "$1<number>")
    .replaceAll(/subs\\":\[([^\]]*)\]/g, (_, subs: string) => `subs\\":[${subs.split(",").toSorted().join(",")}]`)
    .replaceAll(/[0-9a-f]{32,}/g, "<hash>")
    .replaceAll(/[\w+/=-]{40,}/g, "<bytes>");

describe("the record", () => {
  it("of accounts", async () => {
    const { send, made, name } = all;
    const asked = { token: null, headers: {} };
    const code = readFileSync(join(folder, "data/setup-code"), "utf8").trim();
    const body = { code, username: "alice", password: PASSWORD };
    await send("POST", "/auth/setup", "wrong code", { ...asked, body: { ...body, code: "wrong" }, from: "127.0.1.1" });
    all.names.set(code, "setup code");
    const first = await send("POST", "/auth/setup", "done", { ...asked, body, from: "127.0.1.2" });
    const alice = first.json.data.token as string;
    await send("POST", "/auth/setup", "once only", { ...asked, body, from: "127.0.1.3" });
    const begun = await send("POST", "/auth/totp", "begun", { token: alice, body: { password: PASSWORD } });
    const secret = new URL(begun.json.data.uri as string).searchParams.get("secret") as string;
    const step = Math.floor(Date.now() / 30_000);
    for (const at of [step, step + 1]) all.names.set(totpCode(secret, at), "code");
    const on = await send("PUT", "/auth/totp", "on", { token: alice, body: { code: totpCode(secret, step) } });
    const session = on.json.data.token as string;
    const login = { username: "alice", password: PASSWORD };
    await send("POST", "/auth/login", "code wanted", { ...asked, body: login, from: "127.0.1.4" });
    const wrong = { ...login, password: "wrong horse battery" };
    await send("POST", "/auth/login", "wrong password", { ...asked, body: wrong, from: "127.0.1.5" });
    await send("POST", "/auth/login", "a field missing", { ...asked, body: { username: "alice" }, from: "127.0.1.6" });
    await send("POST", "/auth/step-up", "wrong code", { token: session, body: { code: "x" }, from: "127.0.1.7" });
    const next = { code: totpCode(secret, step + 1) };
    await send("POST", "/auth/step-up", "done", { token: session, body: next, from: "127.0.1.8" });
    const bob = { username: "bob", password: PASSWORD, keys: ["key_b"], access: "read" };
    const mfa = { token: { mfa: true } };
    await send("POST", "/auth/users", "done", { ...mfa, body: bob });
    await send("POST", "/auth/users", "there already", { ...mfa, body: bob });
    await send("POST", "/auth/users", "step-up wanted", { body: bob });
    await send("GET", "/auth/users", "done", mfa);
    const bobs = { username: "bob", password: PASSWORD };
    const in_ = await send("POST", "/auth/login", "done", { ...asked, body: bobs, from: "127.0.1.9" });
    const cookie = /^set-cookie: ([^;]+)/im.exec(in_.head)?.[1] as string;
    all.names.set(cookie.slice(cookie.indexOf("=") + 1), "cookie");
    const refresh = { Cookie: cookie, Origin: relay.url };
    const renewed = await send("POST", "/auth/refresh", "done", { ...asked, headers: refresh, from: "127.0.1.10" });
    all.names.set(/^set-cookie: [^=]+=([^;]+)/im.exec(renewed.head)?.[1] ?? "none", "next cookie");
    await send("POST", "/auth/refresh", "no cookie", { ...asked, from: "127.0.1.11" });
    await send("POST", "/auth/logout", "done", { token: in_.json.data.token as string, from: "127.0.1.12" });
    name("username", "bob", "bob");
    all.names.delete("bob");
    const totp = await send("POST", "/auth/users/{username}/totp", "begun", mfa);
    const his = new URL(totp.json.data.uri as string).searchParams.get("secret") as string;
    all.names.set(totpCode(his, step), "code");
    await send("PUT", "/auth/users/{username}/totp", "on", { ...mfa, body: { code: totpCode(his, step) } });
    await send("POST", "/auth/users/{username}/reset", "done", { ...mfa, body: { totp: false } });
    await send("DELETE", "/auth/users/{username}", "done", mfa);
    await send("DELETE", "/auth/users/{username}", "gone", mfa);
    await send("GET", "/.well-known/jwks.json", "done", { token: null });
    await send("POST", "/relay/rekey", "done", mfa);
    await send("POST", "/relay/rekey", "step-up wanted");
    delete made["username"];
    all.close("accounts.txt");
  });

  it("of subscriptions", async () => {
    const { send, name } = all;
    const subscribe = async (as: string, body: object) => {
      const { json: got, text } = await send("POST", HOOKS, as, {
        body: { url: url(`/${as}`), events: ["*.*"], ...body },
      });
      expect(got.data, text).toBeDefined();
      return name("subscriptionId", got.data.id as string, as);
    };
    await subscribe("fails", { events: ["order.lost"], retry: { attempts: 2, firstDelayMs: 10, maxDelayMs: 10 } });
    await subscribe("late", { url: url("/fails"), events: ["order.late"], retry: { delaysMs: [3_600_000] } });
    await subscribe("gone", { events: ["order.sent"] });
    await subscribe("all", {
      description: "everything",
      rateLimit: { perSecond: 100 },
      timeoutMs: 5_000,
      headers: { "X-Tenant": "acme" },
      filter: { path: "data.n", exists: true },
      secret: `whsec_${Buffer.from("a secret of these tests, no other").toString("base64")}`,
    });
    await subscribe("spare", { events: ["order.spare"] });
    await subscribe("busy", { events: ["order.busy"], retry: { attempts: 1 } });
    await subscribe("ordered", {
      url: url("/fails"),
      events: ["order.lost"],
      ordered: true,
      onFailed: "hold",
      retry: { attempts: 1 },
    });
    await subscribe("told", { url: url("/ok"), events: ["order.paid"], transform: "slack" });
    await send("GET", HOOKS, "all of them");
    await send("GET", HOOK, "one of them");
    await send("PATCH", HOOK, "changed", { body: { description: "told", headers: { "X-Key": "k" } } });
    await send("PATCH", HOOK, "refused", { body: { url: "https://10.0.0.1/", status: "active" } });
    await send("POST", HOOKS, "guarded", { body: { url: "https://localhost./", events: ["order.paid"] } });
    const bad = { url: "http://a.example/", events: [], timeoutMs: 1, headers: { Host: "x" }, color: "red" };
    await send("POST", HOOKS, "wrong fields", { body: bad });
    await send("POST", HOOKS, "a name twice", { body: '{"url":"https://a.example.com/","url":"","events":["a"]}' });
    await send("POST", `${HOOK}/rotate-secret`, "step-up wanted");
    await send("POST", `${HOOK}/rotate-secret`, "done", { token: { mfa: true }, body: { overlapSeconds: 60 } });
    await send("POST", `${HOOK}/rotate-secret`, "at once", { token: { mfa: true }, body: { overlapSeconds: 0 } });
    await send("POST", `${HOOK}/filter/test`, "done", { body: { event: { type: "order.paid", data: { n: 1 } } } });
    await send("POST", `${HOOK}/transform/test`, "done", { body: { event: { type: "order.paid", data: { n: 1 } } } });
    await send("POST", `${HOOK}/test`, "done", {});
    await send("GET", "/api-keys", "done");
    await send("GET", "/event-types", "done");
    await send("GET", "/event-types/{eventType}", "done", { at: { eventType: "order.paid" } });
    await send("GET", "/transforms", "done");
    all.close("subscriptions.txt");
  });

  it("of events, their deliveries and replays", async () => {
    const { send, made, names } = all;
    const subs = Object.fromEntries([...names].map(([id, as]) => [as, id]));
    const token = TEST_KEYS.publishToken;
    const event = { keyId: "key_1", createdAt: "2020-02-03T04:05:06Z", data: { n: 1 } };
    const paid = { id: "paid:1", type: "order.paid", ...event };
    const exact = `{"id":"exact","type":"order.paid","keyId":"key_1","createdAt":"2020-02-03T04:05:06Z","data":{"n": 1.0, "é":9007199254740993}}`;
    await send("POST", "/events", "one", { token, body: paid });
    await send("POST", "/events", "the same again", { token, body: paid });
    await send("POST", "/events", "other bytes under its id", { token, body: { ...paid, data: { n: 2 } } });
    const traced = { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" };
    await send("POST", "/events", "bytes as they are", { token, body: exact, headers: traced });
    const batch = ["order.lost", "order.sent", "order.late", "order.busy"].map((type) => ({
      id: `${type.slice(6)}:1`,
      type,
      ...event,
    }));
    await send("POST", "/events", "a batch", { token, body: batch });
    const lines = { "Content-Type": "application/x-ndjson" };
    const nd = [2, 3].map((n) => JSON.stringify({ id: `lost:${n}`, type: "order.lost", ...event })).join("\n");
    await send("POST", "/events", "lines", { token, body: nd, headers: lines });
    const once = { "Idempotency-Key": "only-once" };
    const own = { type: "order.sent", keyId: "key_2", data: [] };
    await send("POST", "/events", "idempotent", { token, body: own, headers: once });
    await send("POST", "/events", "idempotent again", { token, body: own, headers: once });
    await send("POST", "/events", "idempotent, otherwise", { token, body: { ...own, data: {} }, headers: once });
    await send("POST", "/events", "wrong fields", { token, body: [paid, { type: "!", keyId: "", more: 1 }] });
    await send("POST", "/events", "not what its schema says", { token, body: { ...paid, id: "x", data: {} } });
    await send("POST", "/events", "not in the catalogue", { token, body: { ...paid, id: "x", type: "order.odd" } });
    await send("POST", "/events", "a name of the relay's", { token, body: { ...paid, type: "relay:ping" } });
    await send("POST", "/events", "no data", { token, body: { type: "order.paid", keyId: "key_1" } });
    await send("POST", "/events", "no JSON", { token, body: "{" });
    await send("POST", "/events", "too deep", { token, body: `{"data":${"[".repeat(65)}${"]".repeat(65)}}` });
    await send("POST", "/events", "too large", { token, body: { ...paid, id: "x", data: { n: "x".repeat(262_144) } } });
    await send("POST", "/events", "no such type of content", {
      token,
      body: "x",
      headers: { "Content-Type": "text/plain" },
    });
    await send("POST", "/events", "an access token", { body: paid });
    await send("POST", EVENTS, "sent", {
      body: { id: "own:1", type: "order.paid", createdAt: event.createdAt, data: { n: 3 } },
    });
    for (const id of ["paid:1", "exact", "sent:1", "own:1", "busy:1"]) await ended(id);
    const held = async (): Promise<boolean> =>
      JSON.stringify(await all.read(`/api-keys/key_1/webhooks/${subs["ordered"]}/order`)).includes("lost:1");
    await until(held);
    const failed = `/api-keys/key_1/webhooks/${subs["fails"]}/deliveries?status=failed`;
    await until(async () => (await all.read(failed)).length === 3);
    await tried("late:1", subs["late"]);
    made["eventId"] = "paid:1";
    await send("GET", EVENTS, "all of them", {});
    await send("GET", EVENTS, "failed, a page", { query: "status=failed&limit=1" });
    await send("GET", EVENTS, "by a wrong query", { query: "status=odd&limit=0&colour=red" });
    await send("GET", EVENTS, "by a broken cursor", { query: "cursor=AAAA" });
    await send("GET", EVENT, "delivered");
    await send("GET", EVENT, "failed and held", { at: { eventId: "lost:1" } });
    await send("GET", EVENT, "its subscription gone", { at: { eventId: "sent:1" } });
    await send("GET", EVENT, "waiting", { at: { eventId: "late:1" } });
    const [fails = "", late = "", ordered = ""] = [subs["fails"], subs["late"], subs["ordered"]];
    const lost = { eventId: "lost:1", subscriptionId: fails };
    await send("GET", `${HOOK}/deliveries`, "of one", { at: lost });
    await send("GET", `${HOOK}/deliveries`, "failed", { at: lost, query: "status=failed&limit=1" });
    await send("GET", "/api-keys/{keyId}/attempts", "failed", { query: `statusCode=500&subscriptionId=${late}` });
    await send("GET", `${TRIED}/attempts`, "of one", { at: lost });
    await send("GET", `${HOOK}/order`, "held", { at: { subscriptionId: ordered } });
    await send("GET", `${HOOK}/order`, "of none", { at: lost });
    await send("POST", `${HOOK}/skip`, "done", { at: { subscriptionId: ordered }, body: { eventId: "lost:1" } });
    await send("POST", `${HOOK}/skip`, "nothing to skip", { at: lost, body: {} });
    const waits = { eventId: "late:1", subscriptionId: late };
    await send("POST", `${TRIED}/attempt`, "now", { at: waits });
    await ended("late:1");
    await send("POST", `${TRIED}/attempt`, "ended", { at: waits });
    const replay = { at: waits, body: { subscriptionId: late } };
    await send("POST", `${EVENT}/replay`, "done", replay);
    await tried("late:1", late);
    await send("GET", EVENT, "replayed, waiting", { at: waits });
    await send("POST", `${TRIED}/cancel`, "done", { at: waits });
    await send("POST", `${TRIED}/cancel`, "ended", { at: waits });
    await send("GET", EVENT, "cancelled", { at: waits });
    await send("POST", `${EVENT}/replay`, "nothing failed", { body: {} });
    await send("POST", `${EVENT}/replay`, "the receiver rests", { at: { eventId: "busy:1" }, body: {} });
    await send("POST", `${HOOK}/replay`, "tried dry", { at: lost, body: { dryRun: true } });
    await send("POST", `${HOOK}/replay`, "disabled", { at: { subscriptionId: subs["gone"] ?? "" }, body: {} });
    await send("POST", "/api-keys/{keyId}/replay", "tried dry", { body: { dryRun: true, limit: 10 } });
    await send("POST", "/api-keys/{keyId}/replay", "wrong fields", { body: { limit: 0, perSecond: "x" } });
    const selected = [{ eventId: "lost:2", subscriptionId: fails }, { eventId: "none" }];
    await send("POST", "/api-keys/{keyId}/deliveries", "one of two", {
      body: { action: "cancel", deliveries: selected },
    });
    await send("GET", "/api-keys/{keyId}/stats", "an hour", { query: "range=1h", shape: true });
    await send("GET", "/api-keys/{keyId}/stats", "wrong range", { query: "range=9h" });
    await send("GET", "/relay/status", "done", { shape: true });
    const attention = "/api-keys/{keyId}/attention";
    await send("GET", attention, "of one", { query: `subscriptionId=${fails}`, shape: true });
    await send("POST", `${attention}/acknowledge`, "done", { body: { id: `${fails}.failing` } });
    await send("POST", `${attention}/acknowledge`, "none such", { body: { id: "sub_none.down" } });
    await send("GET", "/relay/attention", "done", { shape: true });
    await send("GET", "/api-keys/{keyId}/audit", "a page", { query: "limit=3" });
    await send("GET", "/api-keys/{keyId}/stream", "begun", { until: /\r\n\r\n[^]*\n\n/ });
    all.close("events.txt");
  });

  it("of the limits' own door", async () => {
    const { send } = all;
    const token = CHECK_TOKEN;
    const key = { "X-API-Key": "a customer's key" };
    const asked = { "X-Original-Method": "GET", "X-Original-URI": "/v1/scopes", ...key };
    await send("GET", "/limits/check", "as nginx asks", { token, headers: asked });
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"])
      await send(method, "/limits/check/{path}", "as Envoy asks", {
        token,
        at: { path: method === "POST" ? "v1/qr/create" : "v1/qr/abc" },
        headers: key,
      });
    for (const method of ["GET", "POST"])
      await send(method, `/v1/qr${method === "GET" ? "" : "/create"}`, "forwarded", {
        token: null,
        headers: key,
        ...(method === "POST" && { body: { n: 1 } }),
      });
    await send("GET", "/v1/none", "unknown", { token: null });
    all.close("gateway.txt");
  });

  it("of what ends", async () => {
    const { send, names } = all;
    const subs = Object.fromEntries([...names].map(([id, as]) => [as, id]));
    const at = { subscriptionId: subs["spare"] ?? "" };
    await send("DELETE", HOOK, "done", { at });
    await send("DELETE", HOOK, "gone", { at });
    await send("GET", HOOK, "gone", { at });
    await send("DELETE", EVENT, "done", { at: { eventId: "exact" } });
    await send("POST", "/api-keys/{keyId}/portal-links", "done", { body: { access: "read", expiresInSeconds: 60 } });
    await send("DELETE", "/api-keys/{keyId}/portal-links", "done");
    await send("DELETE", "/api-keys/{keyId}", "done", { at: { keyId: "key_2" }, token: { mfa: true } });
    all.close("ends.txt");
  });

  it("of every operation's refusals", async () => {
    const { send, succeeded } = all;
    const { paths } = JSON.parse((await askRaw(relay.url, "GET /openapi.json HTTP/1.1", {})).split("\n\n")[1] ?? "");
    const described = Object.entries(paths as Record<string, Record<string, ReturnType<typeof JSON.parse>>>).flatMap(
      ([path, item]) => Object.entries(item).map(([verb, one]) => ({ path, method: verb.toUpperCase(), one })),
    );
    const own = described.filter(({ path }) => !path.startsWith("/v1/"));
    const never = ["GET /readyz", "GET /healthz", "GET /relay/backup", "PUT /limits/check/{path}"].concat(
      "POST /relay/attention/acknowledge",
    );
    const open = own.map(({ method, path }) => `${method} ${path}`).filter((one) => !never.includes(one));
    expect(open.filter((one) => !succeeded.has(one))).toEqual([]);
    let asked = 0;
    // Limits of accounts count by address.
    const from = (): string => `127.0.${2 + (++asked >> 7)}.${1 + (asked & 127)}`;
    for (const { path, method, one } of own) {
      const token =
        path === "/events" ? TEST_KEYS.publishToken : path.startsWith("/limits/") ? CHECK_TOKEN : { mfa: true };
      const refused = (what: string, more: Sent) => send(method, path, what, { token, from: from(), ...more });
      const some =
        one.requestBody === undefined ? {} : { body: path === EVENTS ? { type: "order.paid", data: { n: 1 } } : {} };
      await send(["PURGE", "TRACE", "OPTIONS"][asked % 3] as string, path, `instead of ${method}`, { token: null });
      if (one.security?.length === 0) continue;
      await refused("nobody", { token: null });
      if (path.includes("{keyId}")) await refused("another's key", { token: { keys: ["key_9"], mfa: true }, ...some });
      if (method !== "GET" && typeof token === "object")
        await refused("may only read", { token: { access: "read", mfa: true } });
      if (/\{(?:subscriptionId|eventId|username|eventType)\}/.test(path)) {
        const at = { subscriptionId: "sub_none", eventId: "none", username: "nobody", eventType: "none" };
        await refused("none such", { at, ...some });
      }
      if (one.requestBody === undefined) continue;
      await refused("as text", { body: "x", headers: { "Content-Type": "text/plain" } });
      await refused("unknown field", { body: { colour: "red" } });
    }
    all.close("refusals.txt");
  });

  it("of requests that are no good", async () => {
    const { send, mint } = all;
    const odd = { token: null };
    await send("GET", "/", "no page", odd);
    await send("GET", "/api-keys/", "a slash too many", odd);
    await send("GET", "/api-keys/key_1%2Fwebhooks", "a slash that is encoded", odd);
    await send("GET", "/none", "no path", { ...odd, query: "secret=1" });
    await send("HEAD", "/healthz", "without a body", odd);
    await send("HEAD", "/api-keys", "without a body", {});
    await send("GET", "/api-keys", "a bad token", { token: "bad" });
    await send("GET", "/api-keys", "an expectation", { headers: { Expect: "the unexpected" } });
    await send("GET", "/api-keys", "accepts something else", { headers: { Accept: "text/html" } });
    await send("POST", HOOKS, "compressed", { body: {}, headers: { "Content-Encoding": "gzip" } });
    await send("POST", HOOKS, "too large", { body: { url: "x".repeat(65_536) } });
    const large = { headers: { "X-Large": "x".repeat(20_000) } };
    const told: Told = new Map();
    const raw = async (what: string, line: string, options: Asked = {}): Promise<void> =>
      void told.set(what, steady(await askRaw(relay.url, line, options)));
    await raw("a head that is too large", "GET /api-keys HTTP/1.1", large);
    await raw("no request", "what is this");
    await raw("another version", "GET /healthz HTTP/1.0");
    await raw("two lengths", "POST /events HTTP/1.1", { headers: { "Content-Length": "1" }, body: "{}" });
    const sub = { Authorization: `Bearer ${await mint({ sub: "in a hurry" })}` };
    for (const n of [1, 2, 3, 4]) {
      const asked = { headers: { ...sub, "Content-Type": "application/json" }, body: "{}" };
      if (n < 4) await askRaw(relay.url, "POST /api-keys/key_1/webhooks HTTP/1.1", asked);
      else await raw("one too many", "POST /api-keys/key_1/webhooks HTTP/1.1", asked);
    }
    for (const [what, text] of told) all.told.set(what, text);
    all.close("odd-requests.txt");
  });

  it("of pages", async () => {
    const { send } = all;
    for (const path of ["/healthz", "/readyz"]) await send("GET", path, "done", { token: null });
    await send("GET", "/metrics", "nobody", { token: null });
    for (const path of ["/developers", "/portal", "/docs"])
      await send("GET", path, "a page", { token: null, page: true });
    await send("GET", "/openapi.json", "head", { token: null, page: true });
    all.close("pages.txt");
    const { json: document } = await send("GET", "/openapi.json", "done", { token: null });
    all.told.clear();
    compare(
      "openapi.txt",
      new Map([["openapi.json", steady(JSON.stringify(document, null, 1)).replaceAll(/^ +/gm, "")]]),
    );
  });

  it("of what is stored, as a backup has it", async () => {
    const { text } = await all.send("GET", "/relay/backup", "done", { token: { mfa: true } });
    all.told.clear();
    compare(
      "stored.txt",
      new Map([
        [
          "lines, sorted",
          [
            ...new Set(
              text
                .split("\n")
                .filter((line) => !PASSING.test(line))
                .map(storedLine),
            ),
          ]
            .toSorted()
            .join("\n"),
        ],
      ]),
    );
  });

  it("of figures, by their names and labels", async () => {
    const { text } = await all.send("GET", "/metrics", "done", { token: METRICS });
    all.told.clear();
    const names = text
      .split("\n")
      .map((line) => (line.startsWith("#") ? line : steady(line.replace(/ \S+$/, ""), all.names)));
    compare("metrics.txt", new Map([["/metrics", [...new Set(names)].join("\n")]]));
  });

  it("of what a receiver gets", () => {
    const lines = receiver.requests.map(({ method, path, rawHeaders, body }) => {
      const head: string[] = [`${method} ${path}`];
      for (let at = 0; at < rawHeaders.length; at += 2) head.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
      return steady(`${head.join("\n")}\n\n${body.toString()}`, all.names)
        .replaceAll(/v1,[A-Za-z0-9+/]{43}=/g, "<signature>")
        .replaceAll(/^(x-relay-webhook-signature\S*): [0-9a-f]{64}$/gim, "$1: <hex signature>")
        .replaceAll(/^(webhook-timestamp): \d{10}$/gm, "$1: <seconds>");
    });
    compare("deliveries.txt", new Map([["deliveries, sorted", lines.toSorted().join("\n---\n")]]));
  });

  it("of help", async () => {
    const { stdout } = await runHere(["--help"]);
    const commands = [...stdout.matchAll(/^ {2}([a-z][a-z-]*(?: [a-z][a-z-]*)*)/gm)].map(([, words = ""]) => words);
    expect(commands.length).toBeGreaterThan(40);
    const told: Told = new Map([["relay --help", steady(stdout)]]);
    for (const command of commands) {
      told.set(`relay ${command} --help`, await helpOf(command.split(" ")));
    }
    compare("help.txt", told);
  });

  it("of docs/config.md", () => {
    const text = readFileSync(new URL("../../docs/config.md", import.meta.url), "utf8");
    // The page is in git, where its diff can be read.
    compare("config.txt", new Map([["docs/config.md", createHash("sha256").update(text).digest("hex")]]));
  });
});

describe("the record of a relay in need", () => {
  it("has neither room nor an upstream", async () => {
    await using poor = await startChild(testFolder(), { config: "intake: { reserveBytes: 1e15 }," });
    const { send, close } = recorder(poor);
    const body = { type: "order.paid", keyId: "key_1", data: {} };
    await send("POST", "/events", "no room", { token: TEST_KEYS.publishToken, body });
    await send("GET", "/v1/scopes", "no upstream", { token: null });
    await send("GET", "/v1/health", "no upstream", { token: null });
    close("in-need.txt");
  });
});
