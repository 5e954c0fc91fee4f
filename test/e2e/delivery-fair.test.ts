// One bad receiver and many good ones, on disk: who waits for whom, how many at once, and what each may ask for itself.
import { describe, expect, it } from "vitest";
import { sqlite } from "../../config/index.ts";
import { startReceiver, type Receiver, type Received } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

async function publish(relay: TestRelay, type: string, count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1_000) {
    const batch = Array.from({ length: Math.min(left, 1_000) }, () => ({ type, keyId: "key_1", data: 1 }));
    expect((await relay.publish(batch)).status).toBe(202);
  }
}

/** Requests that a receiver holds open until told, and the most it has held at once. */
function holding(paths: (request: Received) => boolean) {
  let open = 0;
  let most = 0;
  const gate = Promise.withResolvers<void>();
  const script = async (request: Received): Promise<number> => {
    if (!paths(request)) return 200;
    most = Math.max(most, ++open);
    await gate.promise;
    open--;
    return 200;
  };
  return { script, release: () => gate.resolve(), most: () => most };
}

const paths = (receiver: Receiver, path: string): number => receiver.requests.filter((one) => one.path === path).length;

describe("one bad receiver", () => {
  it("with 10,000 deliveries pending holds sixteen slots and nobody up", async () => {
    let well = true;
    const held = holding(({ path }) => !well && path === "/bad");
    await using receiver = await startReceiver({ script: held.script });
    await using relay = await startRelay({ storage: sqlite(), delivery: { timeoutMs: 30_000 } });
    await relay.subscribe(receiver.url("/bad"), { events: ["bad"] });
    const good = Array.from({ length: 5 }, (_, i) => `/good${i}`);
    for (const path of good) await relay.subscribe(receiver.url(path), { events: ["good"] });
    // It was well at first: one of which nothing is known has fewer attempts at once.
    const { json } = await relay.publish({ type: "bad", keyId: "key_1", data: 1 });
    const status = async () => (await relay.call("GET", `/api-keys/key_1/events/${json.data.id}`)).json.data.status;
    await expect.poll(status, { timeout: 60_000 }).toBe("delivered");
    well = false;
    await publish(relay, "bad", 10_000);
    await receiver.waitFor(17);
    const latencies: number[] = [];
    for (let n = 0; n < 20; n++) {
      const before = receiver.requests.length;
      const began = performance.now();
      await publish(relay, "good", 1);
      await receiver.waitFor(before + good.length);
      latencies.push(performance.now() - began);
    }
    expect(latencies.toSorted((a, b) => a - b)[10]).toBeLessThan(250);
    expect(paths(receiver, "/bad")).toBe(17);
    expect(held.most()).toBe(16);
    for (const path of good) expect(paths(receiver, path)).toBe(20);
    held.release();
  });
});

describe("requests under way at once", () => {
  it("are never more than 4 of a subscription that never answered, and less than half of 512 of all of those", async () => {
    const held = holding(() => true);
    await using receiver = await startReceiver({ script: held.script });
    await using relay = await startRelay({ storage: sqlite(), delivery: { timeoutMs: 30_000 } });
    for (let i = 0; i < 50; i++) await relay.subscribe(receiver.url(`/${i}`), { events: ["a"] });
    await publish(relay, "a", 20);
    // One key, and one origin, leaves a quarter of them to others.
    await receiver.waitFor(192, 60_000);
    await publish(relay, "a", 1);
    expect([held.most(), receiver.requests.length]).toEqual([192, 192]);
    for (let i = 0; i < 50; i++) expect(paths(receiver, `/${i}`)).toBeLessThanOrEqual(4);
    held.release();
    await receiver.waitFor(1_050, 20_000);
  });
});

describe("a subscription's own terms", () => {
  it("hold for it alone: attempts, waits, deadline and rate", async () => {
    await using receiver = await startReceiver({
      script: ({ path }) => (path === "/hang" ? { do: "hang" } : path === "/paced" ? 200 : 500),
    });
    await using relay = await startRelay({ storage: sqlite(), health: false });
    const retry = { attempts: 2, firstDelayMs: 600, factor: 1, maxDelayMs: 600 };
    await relay.subscribe(receiver.url("/own"), { events: ["a"], retry });
    await relay.subscribe(receiver.url("/default"), { events: ["a"] });
    await relay.subscribe(receiver.url("/hang"), { events: ["a"], timeoutMs: 1_000, retry: { ...retry, attempts: 1 } });
    await relay.subscribe(receiver.url("/paced"), { events: ["paced"], rateLimit: { perSecond: 10 } });
    const { json } = await relay.publish({ type: "a", keyId: "key_1", data: 1 });
    await publish(relay, "paced", 8);
    const shown = async () => (await relay.call("GET", `/api-keys/key_1/events/${json.data.id}`)).json.data;
    await expect.poll(async () => (await shown()).status, { timeout: 60_000 }).toBe("failed");
    const attempts = (await shown()).deliveries.map((one: { attempts: { statusCode?: number; error?: string }[] }) =>
      one.attempts.map((made) => made.statusCode ?? made.error),
    );
    expect(attempts.toSorted()).toEqual([[500, 500], [500, 500, 500, 500, 500], ["timeout"]].toSorted());
    const own = receiver.requests.filter(({ path }) => path === "/own");
    expect((own[1]?.at ?? 0) - (own[0]?.at ?? 0)).toBeGreaterThanOrEqual(590);
    await expect.poll(() => paths(receiver, "/paced"), { timeout: 60_000 }).toBe(8);
    const at = receiver.requests.filter(({ path }) => path === "/paced").map((one) => one.at);
    expect((at[7] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual(650);
  });
});
