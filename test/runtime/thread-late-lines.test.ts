import { describe, expect, it } from "vitest";
import { claim, claimOne, due, endOf, enqueue, lineOf } from "../conformance/queue.ts";
import { useTwoNodes } from "../support/hosted-storage.ts";

const twoNodes = useTwoNodes();

describe("due lines that a thread adds late", () => {
  it("a line that a thread adds so late that another has delivered it is not given to anybody again", async () => {
    const { clock, one, two } = await twoNodes();
    const late = due("a", 1, clock.now());
    await one.commit([lineOf(late)]);
    await two.queue.sweep();
    const lease = await claimOne(two.queue);
    await two.queue.settle(lease, [endOf(lease)]);
    one.queue.add([late]);
    expect(await claim(one.queue)).toEqual([]);
    expect(await two.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it("the deliveries of a new event are due with its commit, also when its thread stands still right after", async () => {
    const { clock, one, two } = await twoNodes();
    const line = due("a", 1, clock.now());
    await one.commit([{ op: "put", key: "event:key:1:1", value: "{}", if: null }, lineOf(line)]);
    const lease = await claimOne(two.queue);
    await two.queue.settle(lease, [endOf(lease)]);
    one.queue.add([line]);
    expect(await claim(one.queue)).toEqual([]);
  });

  it("a line that is settled while it is looked up is not given to anybody again", async () => {
    const { clock, inner, one, two } = await twoNodes();
    const late = due("a", 1, clock.now());
    await enqueue(two, late);
    const lease = await claimOne(two.queue);
    const { getMany } = inner;
    const [asked, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    inner.getMany = async (keys) => {
      const values = await getMany(keys);
      asked.resolve();
      await go.promise;
      return values;
    };
    one.queue.add([late]);
    await asked.promise;
    inner.getMany = getMany;
    await two.queue.settle(lease, [endOf(lease)]);
    go.resolve();
    expect(await claim(one.queue)).toEqual([]);
    expect(await two.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });
});
