// Deliveries to real buses: signed as over HTTPS, and none is lost when the bus or the relay is killed in mid-stream.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { verifyHex, verifyStandard } from "relaybox/verify";
import type { TransportPlugin } from "../../core/ports/plan.ts";
import { startChild } from "../support/child-relay.ts";
import type { BusHarness, FarBus } from "../support/bus-laws.ts";
import { folderBus } from "../support/buses/folder.ts";
import { natsBus } from "../support/buses/nats.ts";
import { rabbitBus } from "../support/buses/rabbit.ts";
import { redisBus } from "../support/buses/redis-stream.ts";
import { testFolder } from "../support/folder.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { until } from "../support/until.ts";

const AWAY = "the connection that the URL names is away: deliveries wait until it is back";
const event = (n: number) => ({ type: "deposits:paid", keyId: "key_1", id: `order:${n}`, data: { n } });
const batch = (from: number, count: number) => Array.from({ length: count }, (_, i) => event(from + i));

async function subscribe(relay: Pick<TestRelay, "call">, url: string) {
  const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url, events: ["*"] } });
  expect(made.status).toBe(201);
  return made.json.data as { readonly id: string; readonly secret: string };
}

/** The numbers of the events that have arrived, from this one on, each once. */
async function numbersOf(bus: FarBus, url: string, from: number): Promise<ReadonlySet<number>> {
  const bodies = (await bus.arrived(url, 0)).map(({ body }) => JSON.parse(Buffer.from(body).toString()) as object);
  const all = bodies.map((body) => (body as { readonly data: { readonly n: number } }).data.n);
  return new Set(all.filter((n) => n >= from));
}

/** Waits until as many events of the key have the status. */
const settled = (relay: Pick<TestRelay, "call">, status: string, count: number) =>
  until(async () => {
    const page = await relay.call("GET", `/api-keys/key_1/events?status=${status}&limit=200`);
    return page.json.data.length >= count;
  });

for (const harness of [folderBus, redisBus, natsBus, rabbitBus] as readonly BusHarness[]) {
  const { system, missing } = harness;
  describe.skipIf(missing !== undefined)(`deliveries to ${system}${missing ? ` (skipped: ${missing})` : ""}`, () => {
    // One for all, as some take long to start; the numbers of the events go up from test to test.
    let bus: FarBus;
    let url: string;
    let plugin: TransportPlugin;
    /** As source text, for the config of another process. */
    let call: string;
    beforeAll(async () => {
      bus = await harness.start();
      url = await bus.destination("paid");
      await bus.lasts?.(url);
      const options = harness.options(bus.at);
      plugin = (harness.make as (given: object) => TransportPlugin)(options);
      call = `${harness.make.name}(${JSON.stringify(options)})`;
    });
    const numbers = (from: number) => numbersOf(bus, url, from);
    afterAll(() => bus[Symbol.asyncDispose]());

    it("carry the signed body and the headers, and show in the timeline where they went", async () => {
      await using relay = await startRelay({ transports: [plugin] });
      const { secret } = await subscribe(relay, url);
      expect((await relay.publish(event(1))).status).toBe(202);
      await settled(relay, "delivered", 1);
      const [message] = await bus.arrived(url, 1);
      expect(verifyStandard(message!.body, message!.headers, secret)).toBe(true);
      expect(verifyHex(message!.body, message!.headers, secret)).toBe(true);
      expect(verifyHex(Buffer.concat([message!.body, Buffer.from(" ")]), message!.headers, secret)).toBe(false);
      expect(message!.headers).toMatchObject({ "X-Relay-Event": "deposits:paid", "X-Relay-Attempt": "1" });
      const shown = await relay.call("GET", "/api-keys/key_1/events/order:1");
      expect(shown.json.data.deliveries[0].attempts).toMatchObject([
        { statusCode: 200, responseExcerpt: expect.stringMatching(/deposits|DEPOSITS/) as string },
      ]);
    });

    it("need a name that the config has and a destination that can be", async () => {
      await using relay = await startRelay({ transports: [plugin] });
      const other = url.replace("://bus/", "://other/");
      const scheme = url.slice(0, url.indexOf(":"));
      for (const [wrong, message] of [
        [other, `no connection in the config for ${scheme}: URLs is named "other"`],
        [`${scheme}://127.0.0.1:4222/x`, `no connection in the config for ${scheme}: URLs is named "127.0.0.1:4222"`],
        [`${scheme}://bus/a b`, expect.stringMatching(/^must be .*:\/\/bus\/ and /) as string],
      ] as const) {
        const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: wrong, events: ["*"] } });
        expect(made.json, wrong).toMatchObject({ code: "URL_NOT_ALLOWED", errors: [{ path: "url", message }] });
      }
    });

    it("outlive a relay that is killed in mid-stream", async () => {
      const folder = testFolder();
      const options = { imports: [harness.make.name], config: `transports: [${call}],` };
      const asked = (relay: Awaited<ReturnType<typeof startChild>>) => ({
        call: (method: string, path: string, { body }: { readonly body?: unknown } = {}) =>
          relay.call(method, path, body) as never,
      });
      {
        await using first = await startChild(folder, options);
        await subscribe(asked(first), url);
        expect((await first.publish(batch(100, 100))).status).toBe(202);
        await until(async () => (await numbers(100)).size > 0);
        const publishing = first.publish(batch(200, 50)).catch(() => undefined);
        await first.kill();
        await publishing;
      }
      await using second = await startChild(folder, options);
      // What was answered 202 is there; the rest is published again.
      expect((await second.publish(batch(200, 50))).status).toBe(202);
      await settled(asked(second), "delivered", 150);
      await until(async () => (await numbers(100)).size === 150);
    });

    // A server starts again in it; RabbitMQ takes minutes for that on a busy machine.
    it(
      "wait for a bus that is killed in mid-stream, and use up no attempts; a test event fails at once, a replay waits",
      { timeout: 400_000 },
      async ({ skip }) => {
        const { server } = bus;
        if (server === undefined) return skip("there is no server");
        await using relay = await startRelay({
          transports: [plugin],
          retry: { attempts: 1 },
          metrics: { token: "metrics-token-of-the-test" },
        });
        const { id } = await subscribe(relay, url);
        await relay.publish(batch(1_000, 60));
        await settled(relay, "delivered", 1);
        const [done] = (await relay.call("GET", "/api-keys/key_1/events?status=delivered&limit=1")).json.data;
        expect(done).toBeDefined();
        const publishing = relay.publish(batch(1_060, 60));
        await server.kill();
        await publishing;
        await relay.publish(batch(1_120, 30));
        const part = async () => (await relay.call("GET", "/readyz")).json.data;
        const named = `transport:${plugin.name}`;
        await until(async () => (await part()).parts[named].ready === false);
        expect((await relay.call("GET", "/readyz")).status).toBe(200);
        expect((await part()).parts[named].state).toBe("is not connected");
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
        const attempts = async () => {
          const shown = await relay.call("GET", `/api-keys/key_1/events/${done.id}`);
          return shown.json.data.deliveries[0].attempts as readonly object[];
        };
        // Those of the new cycle.
        expect(await attempts()).toEqual([]);

        await server.start();
        await settled(relay, "delivered", 150);
        expect(await attempts()).toMatchObject([{ statusCode: 200, cycle: 1, number: 1 }]);
        // The reader of the test connects again by itself, maybe later than the relay.
        await until(async () => (await numbers(1_000)).size === 150);
        expect((await part()).parts[named]).toMatchObject({ ready: true });
      },
    );
  });
}
