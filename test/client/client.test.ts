// The client against a relay, and against servers that refuse, break off, or are none.
import { createServer, request as requestHttp, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type ClientOptions, createClient, ForeignAnswer, NoAnswer, RelayProblem } from "../../core/client/index.ts";
import { OPERATIONS } from "../../core/client/generated.ts";
import { fakeRelay, says } from "../support/command-stage.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS, type TestRelay } from "../support/relay.ts";

const keyId = "key_1";
let relay: TestRelay;
let receiver: Receiver;
let token: string;
beforeAll(async () => {
  [relay, receiver] = await Promise.all([startRelay(), startReceiver()]);
  token = await relay.token({ mfa: true });
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});
const connect = (more: Partial<ClientOptions> = {}) =>
  createClient({ url: relay.url, token, publishToken: TEST_KEYS.publishToken, ...more });

describe("a client of a relay", () => {
  it("has a method for each operation that takes a token", () => {
    const client = connect();
    const names = Object.keys(OPERATIONS);
    expect(Object.keys(client).toSorted()).toEqual([...names, "publish", "request"].toSorted());
    expect(names.length).toBeGreaterThan(40);
  });

  it("never gives path and query of one operation the same name", async () => {
    const { paths } = (await relay.call("GET", "/openapi.json")).json as {
      paths: Record<string, Record<string, { parameters: { name: string; in: string }[] }>>;
    };
    for (const item of Object.values(paths)) {
      for (const { parameters } of Object.values(item)) {
        const names = parameters.filter(({ in: where }) => where !== "header").map(({ name }) => name);
        expect(new Set(names).size, names.join()).toBe(names.length);
        expect(names).not.toContain("body");
        expect(names).not.toContain("signal");
      }
    }
  });

  it("creates, shows, changes and deletes a subscription, and tells of what is not there", async () => {
    const client = connect();
    const body = { url: receiver.url(), events: ["a:*"] };
    const { data: made, meta } = await client.createSubscription({ keyId: "key_2", body });
    const twice = await client.createSubscription({ keyId: "key_2", body });
    expect([made.secret?.startsWith("whsec_"), meta.warnings, twice.meta.warnings?.length]).toEqual([
      true,
      undefined,
      1,
    ]);
    const at = { keyId: "key_2", subscriptionId: made.id };
    await client.updateSubscription({ ...at, body: { description: "mine" } });
    expect((await client.getSubscription(at)).data).toMatchObject({ id: made.id, description: "mine" });
    expect(await client.deleteSubscription(at)).toBeUndefined();
    const problem: unknown = await client.getSubscription(at).catch((error: unknown) => error);
    expect(problem).toBeInstanceOf(RelayProblem);
    expect(problem).toMatchObject({ status: 404, code: "NOT_FOUND", errors: [], retryAfter: undefined });
    expect(String(problem)).toMatch(/^RelayProblem: Not found \(404 NOT_FOUND\): /);
  });

  it("reports every field that is wrong", async () => {
    const body = { url: "http://x.example", events: [] };
    const wrong = await connect()
      .createSubscription({ keyId, body })
      .catch((error: unknown) => error);
    expect(wrong).toMatchObject({ code: "VALIDATION_FAILED" });
    expect((wrong as RelayProblem).errors.map(({ path }) => path)).toEqual(["url", "events"]);
    expect((wrong as RelayProblem).instance).toMatch(/^req_/);
  });

  it("publishes an event, a list, and text byte for byte", async () => {
    const client = connect();
    const one = await client.publish({ type: "a:b", keyId: "key_3", id: "one", data: 1 });
    expect(one).toMatchObject({ data: { id: "one", duplicate: false }, durability: "fsync" });
    const events = [2, 3].map((n) => ({ type: "a:b", keyId: "key_3", data: n }));
    expect((await client.publish(events)).data.map(({ type }) => type)).toEqual(["a:b", "a:b"]);
    await client.publish('{"type":"a:b","keyId":"key_3","id":"exact","data":{"n":90071992547409931.0}}');
    expect((await relay.call("GET", "/api-keys/key_3/events/exact")).text).toContain('{"n":90071992547409931.0}');
    const again = { idempotencyKey: "k" };
    const first = await client.publish({ type: "a:b", keyId: "key_3", data: 4 }, again);
    expect((await client.publish({ type: "a:b", keyId: "key_3", data: 4 }, again)).data.id).toBe(first.data.id);
  });

  it("lists every item of every page, and awaits the first page alone", async () => {
    const client = connect();
    const ids = Array.from({ length: 7 }, (_, i) => `event-${i}`);
    await client.publish(ids.map((id) => ({ type: "a:b", keyId: "key_4", id, data: null })));
    const found: string[] = [];
    for await (const { id } of client.listEvents({ keyId: "key_4", limit: 3 })) found.push(id);
    expect(found.toSorted()).toEqual(ids);
    const { data, meta } = await client.listEvents({ keyId: "key_4", limit: 3 });
    expect([data.length, typeof meta.nextCursor]).toEqual([3, "string"]);
    const rest = await Array.fromAsync(client.listEvents({ keyId: "key_4", limit: 3, cursor: meta.nextCursor }));
    expect(rest).toHaveLength(4);
    expect((await Array.fromAsync(client.listApiKeys())).map(({ id }) => id)).toContain("key_4");
  });

  it("streams what happens on a key, until its signal ends it", async () => {
    const over = new AbortController();
    const stream = await connect().streamApiKey({ keyId, signal: over.signal });
    const reader = stream.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe(": hello\n\n");
    over.abort();
    await expect(reader.read()).rejects.toThrow();
  });

  it("asks its token anew for each request, and asks for other paths with it", async () => {
    let asked = 0;
    const client = connect({ token: async () => (asked++, token) });
    await client.listTransforms();
    const answer = await client.request("GET", "/relay/status?range=1h");
    expect([asked, answer.status, answer.headers.get("content-type")]).toEqual([2, 200, "application/json"]);
    expect(answer.body).toHaveProperty("data.backlog");
  });

  it.each(["", ".", "..", undefined])("asks for nothing where an id is %j", async (eventId) => {
    await expect(connect().getEvent({ keyId, eventId: eventId as string })).rejects.toThrow(TypeError);
  });

  it("stores once what it publishes again because the answer was lost", async () => {
    let asked = 0;
    // Passes requests on, and breaks the connection in place of the first two answers.
    const lossy = createServer((request: IncomingMessage, response) => {
      const { method, url, headers } = request;
      const on = requestHttp(relay.url + url, { method, headers }, (answer) => {
        if (++asked < 3) return void request.socket.destroy();
        response.writeHead(answer.statusCode ?? 0, answer.headers);
        answer.pipe(response);
      });
      request.pipe(on);
    });
    await new Promise<void>((resolve) => void lossy.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(lossy.address() as AddressInfo).port}`;
    const waits: number[] = [];
    const sleep = waitsTo(waits);
    const { data } = await connect({ url, sleep }).publish({ type: "a:b", keyId: "key_5", data: 1 });
    const events = await Array.fromAsync(connect().listEvents({ keyId: "key_5" }));
    expect([asked, waits.length, events.map(({ id }) => id)]).toEqual([3, 2, [data.id]]);
    // What is not known to be safe is not repeated.
    asked = 0;
    await expect(connect({ url, sleep }).listTransforms()).rejects.toBeInstanceOf(NoAnswer);
    expect(asked).toBe(1);
    lossy.closeAllConnections();
    lossy.close();
  });
});

/** Notes the waits between tries; what has a signal and is no such wait is the time of an answer. */
const waitsTo =
  (waits: number[]): NonNullable<ClientOptions["sleep"]> =>
  (ms, signal) => {
    if (ms !== 45_000) return Promise.resolve(void waits.push(ms));
    return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(new Error("over"))));
  };

describe("a client", () => {
  const fake = fakeRelay();
  beforeEach(() => void (fake.asked = []));
  const waits: number[] = [];
  const ask = (more: Partial<ClientOptions> = {}) => {
    waits.length = 0;
    return createClient({ url: `${fake.url}/`, token: "t", publishToken: "p", sleep: waitsTo(waits), ...more });
  };
  const busy = says(429, { title: "Slowly", code: "BURST_EXCEEDED" }, { "retry-after": "3" });
  const good = says(200, { data: [], meta: {} });

  it("waits for a 429 as long as it says, and up to a fifth longer", async () => {
    const told: number[] = [];
    fake.answer = (...given) => (fake.asked.length < 30 ? busy : good)(...given);
    const client = ask({ retries: 50, onWait: (error, ms) => void told.push((error as RelayProblem).status, ms) });
    expect((await client.listTransforms()).data).toEqual([]);
    expect(waits).toHaveLength(29);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(3_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(3_600);
    expect(new Set(waits).size).toBeGreaterThan(5);
    expect(told).toEqual(waits.flatMap((ms) => [429, ms]));
    expect(fake.asked.every(({ headers }) => headers.authorization === "Bearer t")).toBe(true);
  });

  it.each([
    ["after ten tries", {}, busy, 11],
    ["at once where it may not try again", { retries: 0 }, busy, 1],
    ["where the wait is too long", {}, says(429, {}, { "retry-after": "61" }), 1],
    ["where no time is named", {}, says(429, {}), 1],
    ["where a 503 may have been half done", {}, says(503, {}, { "retry-after": "1" }), 1],
  ] as const)("gives up %s", async (_, more, answer, times) => {
    fake.answer = answer;
    await expect(ask(more).listTransforms()).rejects.toBeInstanceOf(RelayProblem);
    expect(fake.asked).toHaveLength(times);
  });

  it("publishes again after a 503, under the same name", async () => {
    const full = says(503, { code: "STORAGE_FULL" }, { "retry-after": "2" });
    fake.answer = (...given) => (fake.asked.length < 3 ? full : says(202, { data: { id: "e" }, meta: {} }))(...given);
    await ask().publish({ type: "a", keyId, data: 1 });
    expect(waits).toHaveLength(2);
    expect(new Set(fake.asked.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
    expect(fake.asked[0]?.headers).toMatchObject({ authorization: "Bearer p", "content-type": "application/json" });
  });

  it("stops waiting when its signal ends it", async () => {
    fake.answer = busy;
    const over = new AbortController();
    const asked = createClient({ url: fake.url, onWait: () => over.abort(new Error("enough")) });
    await expect(asked.getOrder({ keyId, subscriptionId: "s", signal: over.signal })).rejects.toThrow("enough");
  });

  it.each([
    ["no JSON", (_, response) => void response.writeHead(200).end("<html>"), ForeignAnswer],
    ["no envelope", says(200, []), ForeignAnswer],
    ["a redirect", (_, response) => void response.writeHead(302, { location: "/" }).end(), NoAnswer],
    ["a connection that breaks", (request: IncomingMessage) => void request.socket.destroy(), NoAnswer],
  ] as const satisfies readonly (readonly [string, typeof fake.answer, unknown])[])(
    "tells %s from an answer",
    async (_, answer, kind) => {
      fake.answer = answer;
      await expect(ask().getRelayStatus()).rejects.toBeInstanceOf(kind);
    },
  );

  it("waits for an answer as long as it may", async () => {
    fake.answer = () => undefined;
    const asked = createClient({ url: fake.url, timeoutMs: 20 }).getRelayStatus();
    await expect(asked).rejects.toThrow(`no answer from ${fake.url}: none within 0.02 s`);
  });
});
