// The machine's clock is wrong, or is set by hours, under a whole relay: nothing waits for the wrong time to come.
import { describe, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { noFaketime, settableClock } from "../support/faketime.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";

const folders = ["+1d", "+1h", "+90s", "steps"].map((name) => [name, testFolder()] as const);
const folderOf = (name: string): string => new Map(folders).get(name) as string;
const RETRY_MS = 3_000;
const event = (id: string, type = "a:b") => ({ type, keyId: "key_1", id, data: 1 });
const attempts = async (relay: ChildRelay, id: string): Promise<number> =>
  (await relay.event(id)).deliveries[0].attempts.length as number;

describe.concurrent("a relay", () => {
  it("whose clock is set delivers, retries, answers and stops in its usual time", async ({ skip, expect }) => {
    skip(noFaketime !== undefined, noFaketime);
    const clock = settableClock(folderOf("steps"));
    await using receiver = await startReceiver({
      script: ({ headers }) =>
        String(headers["webhook-id"]).startsWith("bad") && headers["x-relay-attempt"] === "1" ? 500 : 200,
    });
    await using relay = await startChild(folderOf("steps"), {
      config: "retry: { attempts: 3, firstDelayMs: 700, factor: 1, maxDelayMs: 700 },",
      env: clock.env,
    });
    await relay.subscribe(receiver.url());
    let sent = 0;
    let n = 0;
    for (const offset of ["+0", "-1h", "+2h", "-30m"]) {
      clock.set(offset);
      const began = performance.now();
      for (const id of [`good:${n}`, `bad:${n++}`]) expect((await relay.publish(event(id))).status).toBe(202);
      sent += 3;
      await receiver.waitFor(sent, 60_000).catch((error: unknown) => expect.fail(`at ${offset}: ${String(error)}`));
      expect(performance.now() - began, `at ${offset}`).toBeGreaterThanOrEqual(690);
    }
    // A step while a retry is held: neither at once nor an hour late.
    clock.set("+0");
    await relay.publish(event("bad:held"));
    await receiver.waitFor(sent + 1);
    await expect.poll(() => attempts(relay, "bad:held"), { interval: 10 }).toBe(1);
    clock.set("-2h");
    await receiver.waitFor(sent + 2, 60_000);
    const [first, second] = receiver.requests.slice(-2);
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(690);
    expect(receiver.requests).toHaveLength(sent + 2);
    const from = performance.now();
    relay.running.kill("SIGTERM");
    expect((await relay.running.ended).code).toBe(0);
    expect(performance.now() - from).toBeLessThan(30_000);
  });

  it.for(["+1d", "+1h", "+90s"])(
    "whose clock was %s, killed and started with the right one, sends what it had accepted at once",
    async (ahead, { skip, expect }) => {
      skip(noFaketime !== undefined, noFaketime);
      const clock = settableClock(folderOf(ahead));
      const start = (): Promise<ChildRelay> =>
        startChild(folderOf(ahead), {
          config: `retry: { attempts: 3, firstDelayMs: ${RETRY_MS}, factor: 1, maxDelayMs: ${RETRY_MS} },
          delivery: { perSubscription: 1, holdMs: 0 }, health: false,`,
          env: clock.env,
        });
      let healed = false;
      await using slow = await startReceiver({ script: () => (healed ? 200 : { do: "hang" }) });
      await using failing = await startReceiver({ script: () => (healed ? 200 : 500) });
      {
        await using relay = await start();
        await relay.subscribe(slow.url(), { events: ["a:b"] });
        await relay.subscribe(failing.url(), { events: ["c:d"] });
        clock.set(ahead);
        for (const one of [event("slow:1"), event("slow:2"), event("slow:3"), event("failing:1", "c:d")])
          expect((await relay.publish(one)).status).toBe(202);
        await slow.waitFor(1);
        await failing.waitFor(1);
        clock.set("+0");
        await expect.poll(() => attempts(relay, "failing:1"), { interval: 20, timeout: 60_000 }).toBe(1);
        await relay.kill();
      }
      healed = true;
      await using relay = await start();
      const ready = performance.now();
      // One was under way and is made again; two were never tried.
      await slow.waitFor(4, 60_000);
      await failing.waitFor(2, 60_000);
      expect(performance.now() - ready).toBeLessThan(60_000);
      expect((await relay.publish(event("slow:4"))).status).toBe(202);
      await slow.waitFor(5, 60_000);
    },
  );
});
