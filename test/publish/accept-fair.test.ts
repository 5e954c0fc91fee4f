// Publishers: the flood of one API key is that key's own trouble.
import { describe, expect, it } from "vitest";
import { DUE } from "../../core/model/schema.ts";
import { desk, publish, subscription, type Desk } from "../support/intake.ts";
import { refusal } from "../support/refusal.ts";
import { turn } from "../support/clock.ts";

const event = (keyId: string): object => ({ type: "deposit:paid", keyId, data: 1 });
const batch = (keyId: string, events = 1): ReturnType<typeof publish> =>
  publish(Array.from({ length: events }, () => event(keyId)));

function limited(maxPendingPerKey: number): Desk {
  const made = desk({ maxPendingPerKey });
  made.subscriptions = [subscription("a"), subscription("a2"), subscription("b", { keyId: "key_2" })];
  return made;
}

/** So many of a key's deliveries end. */
function deliver(made: Desk, count: number): void {
  for (const due of made.shelf.added.splice(0, count)) made.shelf.rows.delete(DUE.key(due));
}

describe("a backlog of one key beyond intake.maxPendingPerKey", () => {
  it("refuses that key until four fifths of it are left, and no other", async () => {
    const made = limited(10);
    await made.intake.accept(batch("key_1", 5));
    await made.intake.accept(batch("key_1"));
    const { code, retryAfter } = await refusal(made.intake.accept(batch("key_1")));
    expect([code, retryAfter]).toEqual(["PROVIDER_BACKPRESSURE", 2]);
    await made.intake.accept(batch("key_2", 5));
    // A batch is all or nothing.
    await refusal(made.intake.accept(publish([event("key_2"), event("key_1")])));
    deliver(made, 3);
    await made.clock.advance(300);
    await refusal(made.intake.accept(batch("key_1")));
    deliver(made, 1);
    await made.clock.advance(300);
    await made.intake.accept(batch("key_1"));
  });

  it("counts those that wait for their turn in order", async () => {
    const made = limited(10);
    made.subscriptions = [subscription("a", { ordered: true })];
    for (let n = 0; n < 11; n++) await made.intake.accept(batch("key_1"));
    expect((await refusal(made.intake.accept(batch("key_1")))).code).toBe("PROVIDER_BACKPRESSURE");
  });

  it("is seen by another process, and by one that has just started", async () => {
    const made = limited(10);
    const other = made.another();
    await other.accept(batch("key_1"));
    await made.intake.accept(batch("key_1", 6));
    const fresh = made.another();
    expect((await refusal(fresh.accept(batch("key_1")))).code).toBe("PROVIDER_BACKPRESSURE");
    await fresh.accept(batch("key_2"));
  });

  it("is no limit by default", async () => {
    const made = limited(0);
    for (let i = 0; i < 5; i++) await made.intake.accept(batch("key_1", 100));
  });
});

describe("a flood of large batches on one key", () => {
  it("makes that key wait for its turns, and no other", async () => {
    const made = desk();
    made.subscriptions = [subscription("a"), subscription("b", { keyId: "key_2" })];
    const commits: (() => void)[] = [];
    made.shelf.before = () => new Promise((resolve) => void commits.push(resolve));
    const flood = Array.from({ length: 20 }, () => made.intake.accept(batch("key_1", 1_000)));
    await turn();
    const small = made.intake.accept(batch("key_2"));
    await turn();
    expect(commits.length).toBeLessThan(5);
    let done = false;
    void small.then(() => (done = true));
    let carried = 0;
    while (!done) {
      commits.shift()?.();
      carried++;
      await turn();
    }
    expect(carried).toBeLessThan(6);
    // The storage is not slow: only this key has more than it can take.
    await made.clock.advance(2_001);
    commits.shift()?.();
    commits.shift()?.();
    await turn();
    const refused = await refusal(made.intake.accept(batch("key_1")));
    expect(refused.code).toBe("PROVIDER_BACKPRESSURE");
    const other = made.intake.accept(batch("key_2"));
    let over = false;
    const all = Promise.all([...flood, other]).finally(() => (over = true));
    while (!over) {
      for (const commit of commits.splice(0)) commit();
      await turn();
    }
    expect((await all).flat()).toHaveLength(20_001);
  });
});
