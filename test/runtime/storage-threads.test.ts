import { describe, expect, it } from "vitest";
import { createSlots } from "../../core/deliver/slots.ts";
import { ConflictError, LeaseLostError } from "../../core/model/errors.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { claim, claimOne, due, endOf, enqueue, lineOf } from "../conformance/queue.ts";
import { useTwoNodes } from "../support/hosted-storage.ts";

const twoNodes = useTwoNodes();

const window = (limit: number) => ({
  key: "k",
  sustained: { limit, windowMs: 60_000 },
  burst: { limit, windowMs: 5_000 },
});

describe("nodes in threads, on one storage", () => {
  it("what a thread held when it ended is given to another at once", async () => {
    const { clock, hosted, one, two } = await twoNodes();
    await enqueue(one, due("a", 1, clock.now()), due("b", 1, clock.now()));
    const leases = await claim(one.queue);
    expect(leases).toHaveLength(2);
    expect(await claim(two.queue)).toEqual([]);
    const never = new AbortController();
    const woken = two.queue.wake(never.signal);
    await hosted.end(one);
    await woken;
    const again = await claim(two.queue);
    expect(again.map(({ subscriptionId }) => subscriptionId).toSorted()).toEqual(["sub_a", "sub_b"]);
    for (const lease of again) await two.queue.settle(lease, [endOf(lease)]);
    expect(await two.range("due:")).toEqual([]);
    expect(await two.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it("what a thread held for a retry is due at its time, not when the thread ends", async () => {
    const { clock, hosted, one, two } = await twoNodes();
    await enqueue(one, due("a", 1, clock.now()));
    const lease = await claimOne(one.queue);
    const keep = due("a", 1, clock.now() + 20_000, { attempts: 1, waitMs: 20_000 });
    await one.queue.settle(lease, [endOf(lease), lineOf(keep)], { keep });
    await hosted.end(one);
    expect(await claim(two.queue)).toEqual([]);
    await clock.advance(19_999);
    expect(await claim(two.queue)).toEqual([]);
    await clock.advance(1);
    expect(await claimOne(two.queue)).toMatchObject(keep);
  });

  it("what a thread held for a retry is due at its time, also when the clock was set back meanwhile", async () => {
    const { clock, hosted, one, two } = await twoNodes();
    await enqueue(one, due("a", 1, clock.now()));
    const lease = await claimOne(one.queue);
    const keep = due("a", 1, clock.now() + 20_000, { attempts: 1, waitMs: 20_000 });
    await one.queue.settle(lease, [endOf(lease), lineOf(keep)], { keep });
    await clock.step(-3_600_000);
    await hosted.end(one);
    await clock.advance(19_999);
    expect(await claim(two.queue)).toEqual([]);
    await clock.advance(1);
    expect(await claimOne(two.queue)).toMatchObject(keep);
  });

  it("a result that was on its way when its thread ended is stored once, and its delivery is given to nobody", async () => {
    const { clock, hosted, one, two } = await twoNodes();
    await enqueue(one, due("a", 1, clock.now()));
    const lease = await claimOne(one.queue);
    const settling = one.queue.settle(lease, [endOf(lease), { op: "put", key: "delivery:1", value: "done" }]);
    settling.catch(() => undefined);
    await new Promise((sent) => setImmediate(sent));
    await two.queue.depth();
    await hosted.end(one);
    expect(await two.getItem("delivery:1")).toBe("done");
    expect(await claim(two.queue)).toEqual([]);
    expect(await two.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it("a new event is refused while its node has not heard of a changed subscription, and only then", async () => {
    const { hosted, one, two } = await twoNodes();
    const heard: string[] = [];
    one.watch((keys) => heard.push(...keys));
    const event = (n: number, key = "key") => [{ op: "put", key: `event:${key}:${n}`, value: "{}", if: null }] as const;
    await one.commit(event(1));
    // The storage has changed, and no message has left for the other node yet.
    let other: Promise<void> | undefined;
    const early = new Promise<void>((resolve) => {
      hosted.inner.watch(() => {
        other = one.commit(event(1, "other"));
        resolve(one.commit(event(2)));
      });
    });
    await two.commit([{ op: "put", key: "subscription:key:1:sub_a", value: "{}" }]);
    await expect(early).rejects.toBeInstanceOf(ConflictError);
    // What is changed on one key refuses no event of another.
    await other;
    expect(heard).toEqual(["subscription:key:1:sub_a"]);
    await one.commit(event(2));
  });

  it("a change is heard by the node that makes it before its commit resolves", async () => {
    const { one } = await twoNodes();
    const heard: string[] = [];
    one.watch((keys) => heard.push(...keys));
    await one.commit([{ op: "put", key: "control:x", value: "1" }]).then(() => heard.push("committed"));
    expect(heard).toEqual(["control:x", "committed"]);
  });

  it("a message is acted on by every other node before the ask is answered, and a node that ended is not waited for", async () => {
    const { hosted, one, two } = await twoNodes();
    const three = await hosted.connect();
    const acted: string[] = [];
    one.nodes?.answer(async (message) => acted.push(`one ${message}`));
    const actedByTwo = new Promise<void>((resolve) => {
      two.nodes?.answer(async (message) => resolve(void acted.push(`two ${message}`)));
    });
    three.nodes?.answer(() => new Promise(() => undefined));
    const wait = { mostMs: 5_000, silentMs: 5_000 };
    // What was said before has arrived.
    for (const node of [two, three]) await node.queue.depth();
    const asked = one.nodes?.ask("stop sub_a", wait);
    await actedByTwo;
    expect(acted).toEqual(["two stop sub_a"]);
    await hosted.end(three);
    expect(await asked).toBe(true);
  });

  it("a message to a node that hangs is given up after its time", async () => {
    const { clock, one, two } = await twoNodes();
    two.nodes?.answer(() => new Promise(() => undefined));
    await two.queue.depth();
    const asked = one.nodes?.ask("quiet sub_a", { mostMs: 2_000, silentMs: 5_000 });
    await clock.whenSleeping();
    await clock.advance(2_000);
    expect(await asked).toBe(false);
  });

  it("a message reaches a node that gave no sign of life too, which is not waited for", async () => {
    const { clock, one, two } = await twoNodes();
    const heard: string[] = [];
    two.nodes?.answer((message) => {
      heard.push(message);
      return new Promise(() => undefined);
    });
    await two.queue.depth();
    await clock.advance(6_000);
    expect(await one.nodes?.ask("erased 1", { mostMs: 2_000, silentMs: 5_000 })).toBe(true);
    // What was said before has arrived.
    await two.queue.depth();
    expect(heard).toEqual(["erased 1"]);
  });

  it("two nodes count on the same windows, and a thread that comes later restores nothing over them", async () => {
    const { hosted, one, two } = await twoNodes();
    for (const node of [one, two, one]) expect((await node.counters.take([window(3)]))[0]?.code).toBeUndefined();
    expect((await two.counters.take([window(3)]))[0]?.code).toBe("RATE_LIMIT_EXCEEDED");
    const later = await hosted.connect();
    later.counters.restore?.("k", { strikes: 1, leftMs: 60_000, ageMs: 0 });
    expect((await two.counters.take([window(3)]))[0]?.code).toBe("RATE_LIMIT_EXCEEDED");
    one.counters.restore?.("k", { strikes: 1, leftMs: 60_000, ageMs: 0 });
    expect((await one.counters.take([window(3)]))[0]?.code).toBe("ABUSE_SUSPEND");
  });

  it("a node with enough of a subscription under way is given none of it", async () => {
    const { clock, one } = await twoNodes();
    await enqueue(one, due("a", 1, clock.now()), due("b", 1, clock.now()));
    const slots = createSlots({ total: 4, perSubscription: 1, clock, lift: () => undefined });
    slots.admit({ subscriptionId: "sub_a", keyId: "key_1" });
    const leases = await claim(one.queue, { perSubscription: 1, busy: slots.busy });
    expect(leases.map(({ subscriptionId }) => subscriptionId)).toEqual(["sub_b"]);
  });

  it("a lease that a cancel took is lost on the node that held it, without asking", async () => {
    const { clock, one, two } = await twoNodes();
    await enqueue(one, due("a", 1, clock.now()));
    const lease = await claimOne(one.queue);
    expect(one.queue.extend(lease)).toBe(true);
    await two.queue.cancel("sub_a");
    expect(one.queue.extend(lease)).toBe(false);
    await expect(one.queue.settle(lease, [endOf(lease)])).rejects.toBeInstanceOf(LeaseLostError);
    expect(await two.range("due:")).toHaveLength(1);
  });

  it("a tap sees what every node commits, in its order", async () => {
    const { one, two } = await twoNodes();
    const seen: string[] = [];
    const stop = (one.tap as NonNullable<Storage["tap"]>)((changes) => seen.push(...changes.map(({ key }) => key)));
    await one.commit([{ op: "put", key: "x:1", value: "1" }]);
    await two.commit([{ op: "put", key: "x:2", value: "2" }]);
    await one.status();
    stop();
    await two.commit([{ op: "put", key: "x:3", value: "3" }]);
    await one.status();
    expect(seen).toEqual(["x:1", "x:2"]);
  });
});
