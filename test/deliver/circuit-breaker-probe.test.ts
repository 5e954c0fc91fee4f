// After a rest the breaker lets one attempt through. What becomes of the rest when that attempt is never made?
import { describe, expect, it } from "vitest";
import { LeaseLostError, StorageError } from "../../core/model/errors.ts";
import { useTwoNodes } from "../support/two-nodes.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const twoNodes = useTwoNodes();

const REST_MS = 10_000;
const HEALTH = { breakerAfter: 1, breakerPauseMs: REST_MS, breakerMaxPauseMs: REST_MS, disableAfterMs: 432_000_000 };

/** A subscription that rests, with one more event waiting; its receiver is well again. */
async function resting(): Promise<{ readonly test: TestPath; readonly waiting: string }> {
  const test = await testPath({ retry: { attempts: 1 }, health: HEALTH });
  await test.deliver(replied(500));
  return { test, waiting: await test.publish() };
}

describe("the attempt that a breaker lets through", () => {
  it("is made, though the storage took so long to say yes that all is looked at again", async () => {
    const { test, waiting } = await resting();
    await using _ = test;
    const { queue } = test.storage;
    const extend = queue.extend.bind(queue);
    queue.extend = async (lease) => {
      queue.extend = extend;
      await test.clock.sleep(test.clock.now() + 6_000);
      return extend(lease);
    };
    await test.clock.advance(REST_MS + 6_001);
    expect(await test.status(waiting)).toBe("delivered");
  });

  it.each([
    ["its lease was lost", (): Promise<boolean> => Promise.reject(new LeaseLostError("sub"))],
    ["the storage failed", (): Promise<boolean> => Promise.reject(new StorageError("unavailable", "away"))],
  ])("leaves the way to another when %s", async (_what, lose) => {
    const { test } = await resting();
    await using _ = test;
    const { queue } = test.storage;
    const extend = queue.extend.bind(queue);
    queue.extend = () => {
      queue.extend = extend;
      return lose();
    };
    await test.clock.advance(REST_MS);
    const next = await test.publish();
    await test.clock.advance(REST_MS);
    expect(await test.status(next)).toBe("delivered");
  });

  it("is not judged by what was sent before it", async () => {
    await using test = await testPath({ retry: { attempts: 1 }, health: HEALTH });
    const replies = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    test.answers = [
      replied(500),
      () => replies[0]!.promise.then(() => replied(500)),
      () => replies[1]!.promise.then(() => replied(200)),
    ];
    const sub = await test.subscribe();
    for (let i = 0; i < 2; i++) await test.publish();
    await test.start();
    await test.whenSent(2);
    const ids = [await test.publish(), await test.publish()];
    await test.clock.advance(REST_MS);
    await test.whenSent(3);
    replies[0]!.resolve();
    await test.clock.advance(0);
    expect(test.parts.circuitBreaker.state(sub).restsUntil).toBeUndefined();
    replies[1]!.resolve();
    await test.clock.advance(0);
    await test.clock.advance(0);
    for (const id of ids) expect(await test.status(id)).toBe("delivered");
  });
});

it("a replay need only tell of those that a breaker pauses, on whichever node", async () => {
  const { clock, one: storage, two } = await twoNodes();
  await using test = await testPath({ clock, storage, retry: { attempts: 1 }, health: HEALTH });
  await using other = await testPath({ clock, storage: two, health: HEALTH });
  await test.deliver(replied(500));
  const [failing] = await test.parts.subscriptionCache.of("key_1");
  const well = await test.subscribe(["withdraw:sent"]);
  await test.parts.circuitBreaker.settled();
  const many = Array.from({ length: 1_200 }, (_, n) => `sub_${n}`);
  for (const { parts } of [test, other])
    expect(await parts.circuitBreaker.open([...many, failing?.id as string, well])).toEqual([failing?.id]);
});
