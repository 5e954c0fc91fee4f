// An attempt meets what happens meanwhile: what an answer has shown before it is stored, and changes to its subscription.
import { expect, it } from "vitest";
import { createInFlight } from "../../core/deliver/send.ts";
import { DELIVERY, EVENT, SUBSCRIPTION } from "../../core/model/schema.ts";
import type { Reply } from "../../core/ports/transport.ts";
import { StorageError } from "../../core/model/errors.ts";
import { dropDue, dueOf, putDelivery, putDue } from "../../core/records/delivery-records.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock, turn } from "../support/clock.ts";
import { holdSettles, replied, testPath, type PathOptions } from "../support/path.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { quietLog } from "../support/quiet.ts";

const HEALTH = { breakerAfter: 1, breakerPauseMs: 60_000, breakerMaxPauseMs: 60_000, disableAfterMs: 432_000_000 };

it.each<[string, PathOptions, Reply]>([
  ["a failure that opens the circuit breaker", { health: HEALTH }, replied(500)],
  ["the receiver's Retry-After", {}, replied(503, { retryAfter: "60" })],
])("nothing more is sent while %s is being stored", async (_, options, reply) => {
  await using test = await testPath({ ...options, retry: { attempts: 1 } });
  test.answers = [reply];
  await test.open();
  const { letGo } = holdSettles(test.storage);
  await test.publish();
  await test.answered(1);
  const next = await test.publish();
  await test.clock.advance(0);
  const sent = test.sent.length;
  letGo();
  await test.clock.advance(60_001);
  expect([sent, await test.status(next)]).toEqual([1, "delivered"]);
});

it("an attempt under way when its subscription is disabled ends as its answer says, and gets no other one", async () => {
  await using test = await testPath();
  const answer = Promise.withResolvers<Reply>();
  test.answers = [() => answer.promise];
  const sub = await test.open();
  const id = await test.publish();
  await test.whenSent(1);
  await test.parts.subscriptions.update("key_1", sub, { status: "disabled" }, { sub: "t" });
  answer.resolve(replied(500));
  await test.clock.advance(3_600_000);
  expect([await test.status(id), test.sent.length]).toEqual(["failed", 1]);
});

it("a delivery in hand that waits for a turn of the event loop is not made when its event is erased meanwhile", async () => {
  const clock = testClock();
  const monotonic = clock.monotonic.bind(clock);
  let busyMs = 0;
  clock.monotonic = () => monotonic() + busyMs;
  await using test = await testPath({ clock });
  for (let n = 0; n < 2; n++) await test.subscribe();
  await test.start();
  // The first takes all of this turn.
  test.answers = [async () => ((busyMs = 5), replied(200))];
  const id = await test.publish();
  expect(test.sent).toHaveLength(1);
  await test.parts.eventErasure.erase("key_1", id, []);
  await test.clock.advance(60_000);
  expect(test.sent).toHaveLength(1);
});

it("a delivery is not made when its event is erased while its subscription is read once more", async () => {
  await using test = await testPath();
  const id = await test.open();
  const { queue, getMany, getItem, commit } = test.storage;
  const own = SUBSCRIPTION.key({ keyId: "key_1", id });
  const extend = queue.extend.bind(queue);
  queue.extend = async (lease) => {
    // It is written as it was: so it has to be read again.
    await commit([{ op: "put", key: own, value: (await getItem(own)) ?? "" }]);
    test.storage.getMany = async (keys) => {
      if (!keys.includes(own)) return await getMany(keys);
      test.storage.getMany = getMany;
      await commit([{ op: "delete", key: EVENT.key({ keyId: "key_1", ordinal: lease.ordinal }) }]);
      test.parts.eventCache.forget(lease.ordinal);
      return await getMany(keys);
    };
    return await extend(lease);
  };
  await test.publish();
  await test.clock.advance(60_000);
  expect(test.sent).toEqual([]);
});

it("a delivery that a replay moves while it is claimed is made once, as the replay says, and nothing is at fault", async () => {
  const log = quietLog();
  await using test = await testPath({ log, delivery: { holdMs: 0 } });
  const event = await test.deliver(replied(500));
  const { queue } = test.storage;
  const claim = queue.claim.bind(queue);
  queue.claim = async (request) => {
    const leases = await claim(request);
    const [line] = leases;
    if (line?.cycle !== 0) return leases;
    // Another node has replayed it since.
    const key = DELIVERY.key(line);
    const was = DELIVERY.orThrow((await test.storage.getItem(key)) ?? "", key);
    const next = { ...was, cycle: 1, attempts: [], nextAttemptAt: test.clock.now(), updatedAt: test.clock.now() };
    await test.storage.commit([dropDue(line), putDelivery(next), putDue(dueOf(next, test.clock.now()))]);
    return leases;
  };
  await test.clock.advance(60_000);
  expect(test.sent.map(({ messageId }) => messageId.slice(-2))).toEqual(["_0", "_1"]);
  expect(await test.status(event)).toBe("delivered");
  expect(log.lines.filter(({ level }) => level === "error")).toEqual([]);
});

it("an attempt is made though the cache has dropped its subscription meanwhile, each time", async () => {
  const clock = testClock();
  const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  const watchers: ((keys: readonly string[]) => void)[] = [];
  const watch = storage.watch.bind(storage);
  storage.watch = (changed) => {
    watchers.push(changed);
    return watch(changed);
  };
  await using test = await testPath({ clock, storage });
  await test.subscribe();
  const { extend } = storage.queue;
  let looks = 0;
  storage.queue.extend = async (lease) => {
    // As when it holds more subscriptions than it has room for, or when messages of other nodes were missed.
    if (looks++ < 100) for (const changed of watchers) changed(["subscription:"]);
    return await extend.call(storage.queue, lease);
  };
  await test.start();
  await test.publish();
  await test.whenSent(1);
  expect(looks).toBe(1);
});

it("a wait for the attempts of a subscription that are in flight is over as soon as they have ended", async () => {
  const answer = Promise.withResolvers<never>();
  const inFlight = createInFlight(() => answer.promise, testClock());
  const sending = inFlight.send({ id: "sub_1" } as never, {} as never, { cycle: 0, number: 1 }, AbortSignal.any([]));
  let drained = false;
  void inFlight.drain("sub_1", 60_000).then(() => (drained = true));
  await turn();
  expect(drained).toBe(false);
  answer.resolve({} as never);
  await sending;
  await turn();
  expect(drained).toBe(true);
});

it("a delivery whose results can be stored again, and later cannot, is tried after a short rest once more", async () => {
  const retry = { attempts: 9, firstDelayMs: 1_000, factor: 1, maxDelayMs: 1_000 };
  await using test = await testPath({ retry, delivery: { holdMs: 0 } });
  test.otherwise = replied(500);
  const { queue } = test.storage;
  const settle = queue.settle.bind(queue);
  let whole = 0;
  queue.settle = async (...args) => {
    if (whole === 0) throw new StorageError("broken", "a page of the database is damaged");
    whole--;
    await settle(...args);
  };
  await test.open();
  await test.publish();
  for (let waited = 0; waited < 60; waited++) await test.clock.advance(5_000);
  whole = 1;
  for (let waited = 0; waited < 90 && whole > 0; waited++) await test.clock.advance(5_000);
  expect(whole).toBe(0);
  const { length } = test.sent;
  for (let waited = 0; waited < 4; waited++) await test.clock.advance(5_000);
  expect(test.sent.length - length).toBeGreaterThanOrEqual(2);
});
