/** A wide event is erased while its deliveries cannot be deleted: nothing of it is sent, and nobody is told of damage. */
import { describe, expect, it } from "vitest";
import { EVENT } from "../../core/model/schema.ts";
import { ConflictError, StorageError } from "../../core/model/errors.ts";
import type { Metrics } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { nullMetrics } from "../../core/runtime/observability/index.ts";
import type { Transforms } from "../../core/runtime/transforms/transforms.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock, type TestClock } from "../support/clock.ts";
import { replied, type TestPath } from "../support/path.ts";
import { publishMany, subscribers, widePath } from "../support/wide.ts";

const ACTOR = { sub: "tester" };

/** A storage that takes nothing more once it has deleted an event's record, until it is well again. */
async function sickAfterErasure(clock: TestClock) {
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const storage: Storage = await memory().setup({ clock, log, metrics: nullMetrics } as never);
  const state = { sick: false };
  const commit = storage.commit.bind(storage);
  storage.commit = async (changes) => {
    if (state.sick) throw new StorageError("full", "no space left");
    await commit(changes);
    state.sick ||= changes.some(({ op, key }) => op === "delete" && key.startsWith("event:"));
  };
  return { storage, state };
}

/** Counts what is reported of damage. */
function counted(): { readonly metrics: Metrics; damaged: number } {
  const seen = {
    damaged: 0,
    metrics: {
      ...nullMetrics,
      count(name: string) {
        if (name === "records_damaged") seen.damaged++;
      },
    } as Metrics,
  };
  return seen;
}

const settle = (test: TestPath): Promise<void> => test.clock.advance(0);

/** Makes the storage well, and looks whether the storage has nothing more of the event. */
async function recover(test: TestPath, state: { sick: boolean }, ordinal: string): Promise<void> {
  expect(state.sick).toBe(true);
  expect(await test.storage.getItem(EVENT.key({ keyId: "key_1", ordinal }))).toBeUndefined();
  state.sick = false;
  await test.clock.advance(120_000);
  const rows = await test.storage.range("", { limit: 10_000 });
  const left = rows.filter(({ key, value }) => key.includes(ordinal) || value.includes(ordinal));
  expect(left.map(({ key }) => key).filter((key) => !key.startsWith("eventId:"))).toEqual([]);
  expect(rows.some(({ value }) => value.includes("record_damaged"))).toBe(false);
}

describe("the erasure of a wide event whose deliveries cannot be deleted yet", () => {
  it.each(["this node", "another one, whose messages do not arrive"])(
    "by %s lets no attempt begin that waited for its transform",
    async (by) => {
      const clock = testClock();
      const { storage, state } = await sickAfterErasure(clock);
      const running = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      const transforms: Transforms = {
        async transform(_, loaded) {
          begun.resolve();
          await running.promise;
          return loaded;
        },
        names: () => ["slow"],
        reload: () => undefined,
        stop: () => Promise.resolve(),
      };
      const seen = counted();
      await using test = await widePath(clock, storage, { transforms, metrics: seen.metrics });
      await subscribers(test, 9);
      const url = "https://receiver.example/slow";
      await test.parts.subscriptions.create("key_1", { url, events: ["deposit:paid"], transform: "slow" }, ACTOR);
      await test.start();
      test.parts.eventErasure.start();
      const [accepted] = await publishMany(test, 1);
      const id = accepted?.id as string;
      await test.whenSent(9);
      await begun.promise;
      await settle(test);
      const found = await test.parts.history.event("key_1", id);
      // Without messages between nodes, storage alone tells the one of the other.
      await using other = await widePath(clock, storage, {});
      const { eventErasure } = by === "this node" ? test.parts : other.parts;
      await eventErasure.erase("key_1", id, []);
      running.resolve();
      await clock.advance(20_000);
      expect(test.sent.filter(({ url: to }) => to === url)).toEqual([]);
      expect(seen.damaged).toBe(0);
      await recover(test, state, found?.event.ordinal as string);
    },
  );

  it("says nothing of damage when a retry is due meanwhile", async () => {
    const clock = testClock();
    const { storage, state } = await sickAfterErasure(clock);
    const seen = counted();
    await using test = await widePath(clock, storage, { retry: { attempts: 5 }, metrics: seen.metrics });
    await subscribers(test, 9);
    await test.subscribe(["relay:delivery.failed"], "key_1", "https://receiver.example/told");
    test.otherwise = replied(500);
    await test.start();
    test.parts.eventErasure.start();
    const [accepted] = await publishMany(test, 1);
    const id = accepted?.id as string;
    await test.whenSent(9);
    await settle(test);
    const found = await test.parts.history.event("key_1", id);
    await test.parts.eventErasure.erase("key_1", id, []);
    const before = test.sent.length;
    await clock.advance(3_600_000);
    expect(test.sent.slice(before)).toEqual([]);
    expect(seen.damaged).toBe(0);
    await recover(test, state, found?.event.ordinal as string);
  });
});

it("the erasure of a wide event whose deliveries change all the time goes on later", async () => {
  const clock = testClock();
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const storage: Storage = await memory().setup({ clock, log, metrics: nullMetrics } as never);
  await using test = await widePath(clock, storage);
  await subscribers(test, 9);
  const [event] = await publishMany(test, 1);
  const { commit } = storage;
  let lost = 0;
  storage.commit = async (changes) => {
    const [first] = changes;
    // Others come first, as often as it is tried in a row.
    if (first?.key.startsWith("fanout:") && lost < 5) throw new ConflictError([`${first.key} ${lost++}`]);
    await commit(changes);
  };
  await test.parts.eventErasure.erase("key_1", event?.id ?? "", []);
  await settle(test);
  expect(lost).toBe(5);
  expect(await storage.range("erasing:")).toHaveLength(1);
  test.parts.eventErasure.start();
  await test.clock.advance(31_000);
  expect(await Promise.all(["erasing:", "fanout:"].map((prefix) => storage.range(prefix)))).toEqual([[], []]);
});
