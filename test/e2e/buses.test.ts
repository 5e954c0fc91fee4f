// Deliveries to a real bus: signed as over HTTPS, and none is lost when the bus or the relay is killed in mid-stream. What
// differs from bus to bus is judged by the law of transports (test/support/bus-laws.ts); for the relay they are alike.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { verifyHex, verifyStandard } from "relaybox/verify";
import { toRedisStream } from "../../config/index.ts";
import { startChild } from "../support/child-relay.ts";
import type { FarBus } from "../support/bus-laws.ts";
import { redisBus } from "../support/buses/redis-stream.ts";
import { testFolder } from "../support/folder.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { until } from "../support/until.ts";

const AWAY = "the connection that the URL names is away: deliveries wait until it is back";
const NAMED = "transport:redis-stream:bus";
const event = (n: number) => ({ type: "deposits:paid", keyId: "key_1", id: `order:${n}`, data: { n } });
const batch = (from: number, count: number) => Array.from({ length: count }, (_, i) => event(from + i));

/** Waits until as many events of the key have the status. */
const settled = (relay: Pick<TestRelay, "call">, status: string, count: number) =>
  until(async () => {
    const page = await relay.call("GET", `/api-keys/key_1/events?status=${status}&limit=200`);
    return page.json.data.length >= count;
  });

const { missing } = redisBus;
describe.skipIf(missing !== undefined)(`deliveries to a bus${missing ? ` (skipped: ${missing})` : ""}`, () => {
  // One for all; the numbers of the events go up from test to test.
  let bus: FarBus & Required<Pick<FarBus, "server">>;
  let url: string;
  let options: Parameters<typeof toRedisStream>[0];
  beforeAll(async () => {
    bus = await redisBus.start();
    url = await bus.destination("paid");
    options = redisBus.options(bus.at) as typeof options;
  });
  afterAll(() => bus[Symbol.asyncDispose]());

  /** The numbers of the events that have arrived, from this one on, each once. */
  async function numbers(from: number): Promise<ReadonlySet<number>> {
    const bodies = (await bus.arrived(url, 0)).map(({ body }) => JSON.parse(Buffer.from(body).toString()) as object);
    const all = bodies.map((body) => (body as { readonly data: { readonly n: number } }).data.n);
    return new Set(all.filter((n) => n >= from));
  }

  it("carry the signed body and the headers, and show in the timeline where they went", async () => {
    await using relay = await startRelay({ transports: [toRedisStream(options)] });
    const { secret } = await relay.subscribe(url);
    expect((await relay.publish(event(1))).status).toBe(202);
    await settled(relay, "delivered", 1);
    const [message] = await bus.arrived(url, 1);
    expect(verifyStandard(message!.body, message!.headers, secret)).toBe(true);
    expect(verifyHex(message!.body, message!.headers, secret)).toBe(true);
    expect(verifyHex(Buffer.concat([message!.body, Buffer.from(" ")]), message!.headers, secret)).toBe(false);
    expect(message!.headers).toMatchObject({ "X-Relay-Event": "deposits:paid", "X-Relay-Attempt": "1" });
    expect((await relay.event("order:1")).deliveries[0].attempts).toMatchObject([
      { statusCode: 200, responseExcerpt: expect.stringContaining("deposits") as string },
    ]);
  });

  it("need a name that the config has and a destination that can be", async () => {
    await using relay = await startRelay({ transports: [toRedisStream(options)] });
    const unnamed = "no connection in the config for redis-stream: URLs is named";
    for (const [wrong, message] of [
      [url.replace("://bus/", "://other/"), `${unnamed} "other"`],
      ["redis-stream://127.0.0.1:4222/x", `${unnamed} "127.0.0.1:4222"`],
      ["redis-stream://bus/a b", expect.stringMatching(/^must be .*:\/\/bus\/ and /) as string],
    ] as const) {
      const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: wrong, events: ["*"] } });
      expect(made.json, wrong).toMatchObject({ code: "URL_NOT_ALLOWED", errors: [{ path: "url", message }] });
    }
  });

  it("outlive a relay that is killed in mid-stream", async () => {
    const folder = testFolder();
    const config = `transports: [toRedisStream(${JSON.stringify(options)})],`;
    const start = () => startChild(folder, { imports: ["toRedisStream"], config });
    {
      await using first = await start();
      await first.subscribe(url);
      expect((await first.publish(batch(100, 100))).status).toBe(202);
      await until(async () => (await numbers(100)).size > 0);
      const publishing = first.publish(batch(200, 50)).catch(() => undefined);
      await first.kill();
      await publishing;
    }
    await using second = await start();
    // All that was answered 202 is there; the rest is published again.
    expect((await second.publish(batch(200, 50))).status).toBe(202);
    await until(async () => (await numbers(100)).size === 150);
  });

  it("wait for a bus that is killed in mid-stream, and use up no attempts; a test event fails at once, a replay waits", async () => {
    await using relay = await startRelay({
      transports: [toRedisStream(options)],
      retry: { attempts: 1 },
      metrics: { token: "metrics-token-of-the-test" },
    });
    const { id } = await relay.subscribe(url);
    await relay.publish(batch(1_000, 60));
    await settled(relay, "delivered", 1);
    const [done] = (await relay.call("GET", "/api-keys/key_1/events?status=delivered&limit=1")).json.data;
    expect(done).toBeDefined();
    const publishing = relay.publish(batch(1_060, 60));
    await bus.server.kill();
    await publishing;
    await relay.publish(batch(1_120, 30));
    const part = async () => (await relay.call("GET", "/readyz")).json.data.parts[NAMED];
    await until(async () => (await part()).ready === false);
    expect((await relay.call("GET", "/readyz")).status).toBe(200);
    expect((await part()).state).toMatch(/^is not connected(?:: |$)/);
    const metrics = async () => (await relay.call("GET", "/metrics", { token: "metrics-token-of-the-test" })).text;
    await until(async () => /^relay_connection_away\{transport="[a-z:-]+"\} 1$/m.test(await metrics()));
    expect(await metrics()).toMatch(/^relay_attempts_put_off_total\{transport="[a-z:-]+"\} [1-9]/m);

    const tried = await relay.call("POST", `/api-keys/key_1/webhooks/${id}/test`);
    expect(tried.status).toBe(200);
    expect(tried.json.data).toMatchObject({ error: "connect", detail: AWAY });
    // Told by what is known, not by a deadline.
    expect(tried.json.data.durationMs).toBeLessThan(10_000);
    const replay = { body: { force: true } };
    expect((await relay.call("POST", `/api-keys/key_1/events/${done.id}/replay`, replay)).status).toBeLessThan(300);
    // Those of the new cycle.
    const attempts = async () => (await relay.event(done.id)).deliveries[0].attempts as readonly object[];
    expect(await attempts()).toEqual([]);

    await bus.server.start();
    await settled(relay, "delivered", 150);
    expect(await attempts()).toMatchObject([{ statusCode: 200, cycle: 1, number: 1 }]);
    // The reader of the test connects again by itself, maybe later than the relay.
    await until(async () => (await numbers(1_000)).size === 150);
    expect(await part()).toMatchObject({ ready: true });
  });
});
