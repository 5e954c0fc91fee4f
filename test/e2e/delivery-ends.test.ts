// DELETE and disable as clients of the API see them, with a receiver that watches the wire.
import { describe, expect, it } from "vitest";
import { memory, sqlite } from "../../config/index.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const EVENT = { type: "deposit:paid", keyId: "key_1", data: { n: 1 } };
const HOOKS = "/api-keys/key_1/webhooks";

/** A delivery, as a subscription lists it. */
interface Listed {
  readonly reason?: string;
  readonly attempts: readonly { readonly startedAt: string }[];
}

const arrived = (receiver: Receiver): number => receiver.requests.length;

describe("DELETE", () => {
  it("ends what is on the wire, closes idle connections, and nothing arrives after its 204", async () => {
    await using receiver = await startReceiver({ keepAliveMs: 60_000 });
    await using relay = await startRelay({ storage: sqlite() });
    const { id } = await relay.subscribe(receiver.url());
    // Eight answered, so that connections are kept; then eight that hang, and more that wait for a slot.
    await Promise.all(Array.from({ length: 8 }, () => relay.publish(EVENT)));
    await receiver.waitFor(8);
    receiver.answer([], { do: "hang" });
    await relay.publish(Array.from({ length: 40 }, () => EVENT));
    await receiver.waitFor(24);
    const deleted = await relay.call("DELETE", `${HOOKS}/${id}`);
    const atAnswer = arrived(receiver);
    expect([deleted.status, deleted.text]).toEqual([204, ""]);
    await receiver.waitForAborted(16);
    receiver.answer([], 200);
    const { id: other } = await relay.subscribe(receiver.url());
    await relay.publish(EVENT);
    await receiver.waitFor(atAnswer + 1);
    expect(arrived(receiver)).toBe(25);
    expect((await relay.call("GET", HOOKS)).json.data.map((hook: { id: string }) => hook.id)).toEqual([other]);
    const { json } = await relay.call("GET", "/api-keys/key_1/events?status=cancelled&limit=200");
    expect(json.data).toHaveLength(40);
  });

  it("forgets the connections that it kept for the subscription", async () => {
    await using receiver = await startReceiver({ keepAliveMs: 60_000 });
    await using relay = await startRelay({ storage: memory() });
    const { id } = await relay.subscribe(receiver.url());
    await relay.publish(EVENT);
    await receiver.waitFor(1);
    await expect.poll(() => receiver.open()).toBe(1);
    await relay.call("DELETE", `${HOOKS}/${id}`);
    // Well below the four seconds after which it would have been closed anyway.
    await expect.poll(() => receiver.open(), { timeout: 60_000 }).toBe(0);
  });

  it("ends a test event that is on the wire, and its caller finds no such subscription", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    await using relay = await startRelay({ storage: memory() });
    const { id } = await relay.subscribe(receiver.url());
    const pinging = relay.call("POST", `${HOOKS}/${id}/test`);
    await receiver.waitFor(1);
    expect((await relay.call("DELETE", `${HOOKS}/${id}`)).status).toBe(204);
    await receiver.waitForAborted(1);
    const pinged = await pinging;
    expect([pinged.status, pinged.json.code]).toEqual([404, "NOT_FOUND"]);
    expect((await relay.call("POST", `${HOOKS}/${id}/test`)).status).toBe(404);
  });
});

describe("disabling", () => {
  it("lets what is on the wire end, and starts nothing after its 200, however many come at once", async () => {
    for (let round = 0; round < 3; round++) {
      await using receiver = await startReceiver({
        script: () => ({ do: "reply", status: 200, delayMs: 20 }),
      });
      await using relay = await startRelay({ storage: sqlite() });
      const { id } = await relay.subscribe(receiver.url());
      const publishing = Promise.all(
        Array.from({ length: 10 }, () => relay.publish(Array.from({ length: 19 }, () => EVENT))),
      );
      await receiver.waitFor(10 + round * 17);
      const disabled = await relay.call("PATCH", `${HOOKS}/${id}`, { body: { status: "disabled" } });
      const disabledAt = Date.now();
      expect(disabled.status).toBe(200);
      await publishing;
      await relay.publish(EVENT);
      // Attempts on the wire end, and when the queue is empty nothing more can be sent.
      await relay.idle();
      const list = async (status: string): Promise<readonly Listed[]> =>
        (await relay.call("GET", `${HOOKS}/${id}/deliveries?status=${status}&limit=200`)).json.data;
      const [delivered, failed] = [await list("delivered"), await list("failed")];
      expect(delivered.length + failed.length).toBe(191);
      expect(new Set(failed.map(({ reason }) => reason))).toEqual(new Set(["subscription_disabled"]));
      const started = delivered.flatMap(({ attempts }) => attempts.map(({ startedAt }) => Date.parse(startedAt)));
      expect(started.filter((at) => at > disabledAt)).toEqual([]);
      // Each that arrived is on record as delivered, so it was begun before the answer, and none was cut off.
      expect(delivered).toHaveLength(arrived(receiver));
    }
  });
});

describe("what an attempt goes by", () => {
  it("URL, headers, secret and deadline are those of its moment; the events those of the acceptance", async () => {
    await using receiver = await startReceiver({ script: [500, { do: "hang" }] });
    await using relay = await startRelay({
      storage: memory(),
      retry: { attempts: 5, firstDelayMs: 300, factor: 1, maxDelayMs: 300 },
    });
    const { id } = await relay.subscribe(receiver.url(), { headers: { "X-Tenant": "one" } });
    const { json } = await relay.publish(EVENT);
    await receiver.waitFor(1);
    const body = {
      url: receiver.url("/moved"),
      events: ["withdraw:sent"],
      headers: { "X-Tenant": "two" },
      timeoutMs: 3_000,
    };
    expect((await relay.call("PATCH", `${HOOKS}/${id}`, { body })).status).toBe(200);
    await receiver.waitFor(2);
    // A machine that is busy may need more than that for an attempt which is answered.
    expect((await relay.call("PATCH", `${HOOKS}/${id}`, { body: { timeoutMs: 30_000 } })).status).toBe(200);
    await receiver.waitFor(3);
    expect(
      receiver.requests.map(({ path, headers }) => [path, headers["x-tenant"], headers["x-relay-attempt"]]),
    ).toEqual([
      ["/hook", "one", "1"],
      ["/moved", "two", "2"],
      ["/moved", "two", "3"],
    ]);
    const event = `/api-keys/key_1/events/${json.data.id}`;
    await expect.poll(async () => (await relay.call("GET", event)).json.data.status).toBe("delivered");
    const [delivery] = (await relay.call("GET", event)).json.data.deliveries;
    expect(
      delivery.attempts.map((one: { statusCode?: number; error?: string }) => one.statusCode ?? one.error),
    ).toEqual([500, "timeout", 200]);
    expect(delivery.attempts[1].durationMs).toBeLessThan(9_000);
    expect((await relay.publish(EVENT)).json.data.deliveries).toBe(0);
  });
});

describe("a receiver that speaks no valid HTTP", () => {
  it.each([
    ["a status below 100", "HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n"],
    ["a switch of protocols", "HTTP/1.1 101 Switching\r\n\r\n"],
  ])("(%s) uses up the five attempts like any other, and a test event shows what it said", async (_, text) => {
    await using receiver = await startReceiver({ otherwise: { do: "raw", text } });
    await using relay = await startRelay({ storage: memory() });
    const { id } = await relay.subscribe(receiver.url());
    const { json } = await relay.publish(EVENT);
    const event = `/api-keys/key_1/events/${json.data.id}`;
    await eventually("it has failed", async () => (await relay.call("GET", event)).json.data.status === "failed");
    const [delivery] = (await relay.call("GET", event)).json.data.deliveries;
    expect(delivery.reason).toBe("exhausted");
    expect(delivery.attempts.map((one: { error?: string }) => one.error)).toEqual(Array(5).fill("protocol"));
    const pinged = await relay.call("POST", `${HOOKS}/${id}/test`);
    expect([pinged.status, pinged.json.data.error]).toEqual([200, "protocol"]);
  });
});
