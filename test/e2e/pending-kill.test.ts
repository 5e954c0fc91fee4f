// The process is killed while deliveries are tried now and cancelled: each is as it was, or as it was asked for.
import { describe, expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";

const RETRY = { attempts: 5, firstDelayMs: 3_600_000, factor: 1, maxDelayMs: 3_600_000 };
const KEY = "/api-keys/key_1";
/** The 24 failures of the first attempts open no circuit breaker, which would hold up the second ones for a minute. */
const OPTIONS = { config: "health: { breakerAfter: 1000000 }," };

interface Shown {
  readonly id: string;
  readonly deliveries: readonly {
    readonly subscriptionId: string;
    readonly status: string;
    readonly reason?: string;
    readonly attempts: readonly { readonly number: number }[];
  }[];
}

describe("a relay killed while pending deliveries are tried and cancelled", () => {
  it("keeps what it has answered, and leaves nothing half done", async () => {
    await using receiver = await startReceiver({ otherwise: 500 });
    const folder = testFolder();
    await using first = await startChild(folder, OPTIONS);
    const made = await first.call("POST", `${KEY}/webhooks`, { url: receiver.url(), events: ["*"], retry: RETRY });
    const sub = made.json.data.id as string;
    const ids = Array.from({ length: 24 }, (_, n) => `order:${n}`);
    const events = ids.map((id) => ({ type: "a:b", keyId: "key_1", id, data: {} }));
    expect((await first.publish(events)).status).toBe(202);
    const read = async (relay: typeof first, id: string): Promise<Shown> =>
      (await relay.call("GET", `${KEY}/events/${id}`)).json.data;
    for (const id of ids) await expect.poll(async () => (await read(first, id)).deliveries[0]?.attempts.length).toBe(1);

    const answered = new Map<string, number>();
    const anyone = Promise.withResolvers<void>();
    const acts = ids.map(async (id, n) => {
      const act = n % 2 === 0 ? "cancel" : "attempt";
      // Those that are cut off have no answer.
      const answer = await first.call("POST", `${KEY}/events/${id}/deliveries/${sub}/${act}`).catch(() => undefined);
      if (answer !== undefined) answered.set(id, answer.status);
      anyone.resolve();
    });
    await anyone.promise;
    await first.kill();
    await Promise.all(acts);

    await using second = await startChild(folder, OPTIONS);
    const audit = (await second.call("GET", `${KEY}/audit?limit=200`)).json.data as {
      action: string;
      target: string;
    }[];
    const lines = (action: string): ReadonlySet<string> =>
      new Set(audit.filter((line) => line.action === action).map(({ target }) => target));
    const [cancelled, tried] = [lines("delivery.cancelled"), lines("delivery.tried")];
    for (const [n, id] of ids.entries()) {
      const was = n % 2 === 0 ? cancelled : tried;
      if (answered.get(id) === 204) expect(was.has(id), `${id} was answered`).toBe(true);
      if (n % 2 === 0) {
        const [delivery] = (await read(second, id)).deliveries;
        expect(delivery).toMatchObject(
          cancelled.has(id) ? { status: "cancelled", reason: "cancel_requested" } : { status: "pending" },
        );
        expect(delivery?.attempts).toHaveLength(1);
        continue;
      }
      // What was made due is tried, now or before the kill; the rest waits for its hour.
      await expect
        .poll(async () => (await read(second, id)).deliveries[0]?.attempts.map(({ number }) => number))
        .toEqual(tried.has(id) ? [1, 2] : [1]);
    }
  });
});
