// Events with more deliveries than a commit holds, on every storage.
import { join } from "node:path";
import fsDriver from "unstorage/drivers/fs-lite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { Reply } from "../../core/ports/transport.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { redisAt } from "../../plugins/storage/redis.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { unstorage } from "../../plugins/storage/unstorage.ts";
import { testClock, type TestClock } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import * as wide from "../support/wide.ts";
import type { WideHarness } from "../support/wide.ts";
import { replied } from "../support/path.ts";
import { until } from "../support/until.ts";

const folder = testFolder();
const noRedis = needs("redis");
const LEASE_MS = 60_000;
let server: RedisServer | undefined;
let made = 0;

beforeAll(async () => {
  if (noRedis === undefined) server = await startRedis();
});
afterAll(async () => {
  await server?.[Symbol.asyncDispose]();
});

/** A storage in a folder of its own, which may be opened again. */
function inFolder(plugin: (dir: string) => { setup(context: never): Promise<Storage> | Storage }): WideHarness {
  const folders = new WeakMap<Storage, string>();
  const openIn = async (dir: string, clock: TestClock): Promise<Storage> => {
    const storage = await plugin(dir).setup(pluginContext(clock, folder) as never);
    folders.set(storage, dir);
    return storage;
  };
  return {
    open: (clock) => openIn(join(folder, String(made++)), clock),
    async reopen(storage, clock) {
      await storage.dispose();
      return openIn(folders.get(storage) as string, clock);
    },
  };
}

/** On a busy machine a Redis that is there may not answer in time. */
async function insist<T>(work: () => Promise<T> | T): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === 5) throw error;
    }
  }
}

/** The test's clock, whose waits end in real time as well: a call that a busy machine delays is tried again. */
function flowing(clock: TestClock): Clock {
  const system = systemClock();
  return {
    now: clock.now,
    monotonic: clock.monotonic,
    async sleep(until, signal) {
      const over = new AbortController();
      const either = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]);
      const waits = [clock.sleep(until, either), system.sleep(system.now() + until - clock.now(), either)];
      for (const wait of waits) wait.catch(() => {});
      await Promise.race(waits).finally(() => over.abort());
    },
  };
}

/** What a busy machine makes a node try again waits by the clock: it goes on while the test waits. */
const meanwhile = (clock: TestClock, holds: () => boolean | Promise<boolean>, ms = 50): Promise<void> =>
  until(async () => {
    await clock.advance(ms);
    return await holds();
  });

function onRedis(): WideHarness {
  const prefixes = new WeakMap<Storage, string>();
  const openAs = async (prefix: string, clock: TestClock): Promise<Storage> => {
    const plugin = redisAt({ url: server?.url ?? "", prefix, leaseMs: LEASE_MS }, clock.now);
    const storage = await insist(() => plugin.setup(pluginContext(flowing(clock), folder)));
    prefixes.set(storage, prefix);
    return storage;
  };
  const again = (storage: Storage, clock: TestClock) => openAs(prefixes.get(storage) as string, clock);
  return {
    open: (clock) => openAs(`wide${made++}`, clock),
    reopen: again,
    second: again,
    leaseMs: LEASE_MS,
  };
}

const STORAGES: Readonly<Record<string, WideHarness>> = {
  "memory()": { open: (clock) => memory().setup(pluginContext(clock, folder)) },
  "sqlite()": inFolder((dir) => sqlite({ dir })),
  "filesystem()": inFolder((dir) => filesystem({ dir })),
  "unstorage()": inFolder((base) => unstorage(fsDriver({ base }))),
  "redis()": onRedis(),
};
/** No answer: what is sent stays under way until its node is stopped. */
const never = (_: unknown, signal: AbortSignal): Promise<Reply> =>
  new Promise((_resolve, reject) => {
    const end = (): void => reject(signal.reason as Error);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end);
  });

describe.each(Object.entries(STORAGES))(
  "an event for more subscriptions than a commit holds, on %s",
  (name, harness) => {
    const without = name === "redis()" && noRedis !== undefined;
    const law = it.skipIf(without);
    // What dies with its process leaves nothing to a next node.
    const lawOfDeath = it.skipIf(without || harness.reopen === undefined);

    law("reaches each of them once, and its 202 tells how many there are", async () => {
      const clock = testClock();
      await using storage = disposed(await harness.open(clock));
      await using test = await wide.widePath(clock, storage.of);
      const ids = await wide.subscribers(test, 23);
      const commits: number[] = [];
      const { commit } = storage.of;
      storage.of.commit = (changes) => {
        commits.push(changes.length);
        return commit(changes);
      };
      const [accepted] = await wide.publishMany(test, 1);
      const id = accepted?.id as string;
      expect(accepted).toMatchObject({ deliveries: 23, duplicate: false });
      expect(Math.max(...commits)).toBeLessThan(10);
      expect(await wide.outcomes(test, id)).toEqual(wide.everyOne(ids, "pending"));
      expect(await wide.faults(storage.of)).toEqual([]);
      await test.start();
      await meanwhile(clock, wide.ended(test, id));
      expect(await test.status(id)).toBe("delivered");
      expect(test.sent.map(({ subscriptionId }) => subscriptionId).toSorted()).toEqual(ids);
      expect(await storage.of.range("due:")).toEqual([]);
      expect(await wide.faults(storage.of)).toEqual([]);
    });

    law("is found by what an attempt of any of its deliveries was answered", async () => {
      const clock = testClock();
      await using storage = disposed(await harness.open(clock));
      await using test = await wide.widePath(clock, storage.of);
      const ids = await wide.subscribers(test, 23);
      const one = ids[17] as string;
      test.otherwise = (request) => Promise.resolve(replied(request.subscriptionId === one ? 204 : 200));
      const [accepted] = await wide.publishMany(test, 1);
      const id = accepted?.id as string;
      await test.start();
      await meanwhile(clock, wide.ended(test, id));
      const find = async (filter: object): Promise<readonly string[]> =>
        (await test.parts.history.events("key_1", filter, { limit: 10 })).items.map(({ event }) => event.id);
      expect(await find({ statusCode: 204 })).toEqual([id]);
      expect(await find({ statusCode: 204, subscriptionId: one })).toEqual([id]);
      expect(await find({ statusCode: 204, subscriptionId: ids[3] })).toEqual([]);
      expect(await find({ statusCode: 500 })).toEqual([]);
    });

    law("is stored when its batch has too many deliveries, each of which is made once", async () => {
      const clock = testClock();
      await using storage = disposed(await harness.open(clock));
      await using test = await wide.widePath(clock, storage.of);
      const ids = await wide.subscribers(test, 4);
      const accepted = await wide.publishMany(test, 30);
      expect(accepted.map(({ deliveries }) => deliveries)).toEqual(accepted.map(() => 4));
      expect(await storage.of.range("fanout:")).toHaveLength(25);
      await test.start();
      for (const { id } of accepted) await meanwhile(clock, wide.ended(test, id));
      expect(test.sent).toHaveLength(120);
      for (const { id } of accepted) expect(await wide.outcomes(test, id)).toEqual(wide.everyOne(ids, "delivered"));
      expect(await wide.faults(storage.of)).toEqual([]);
    });

    for (const stored of [false, true]) {
      lawOfDeath(
        `is written to its end by the next node when one dies at any page, ${stored ? "after" : "before"} its commit`,
        async () => {
          for (const page of [1, 2, 3]) {
            const clock = testClock();
            const first = await harness.open(clock);
            const mortal = wide.mortal(first, page, stored);
            const dying = await wide.widePath(clock, mortal.storage);
            dying.otherwise = never;
            const ids = await wide.subscribers(dying, 13);
            const [accepted] = await wide.publishMany(dying, 1);
            await dying.start();
            await meanwhile(clock, mortal.isDead, 10);
            await dying[Symbol.asyncDispose]();
            await using storage = disposed((await harness.reopen?.(first, clock)) ?? first);
            await using test = await wide.widePath(clock, storage.of);
            await test.start();
            // Leases of the dead node lapse by the clock.
            const ms = harness.leaseMs === undefined ? 50 : 1_000;
            await meanwhile(clock, wide.ended(test, accepted?.id as string), ms);
            expect(await wide.outcomes(test, accepted?.id as string)).toEqual(wide.everyOne(ids, "delivered"));
            expect(test.sent.map(({ subscriptionId }) => subscriptionId).toSorted()).toEqual(ids);
            expect(await wide.faults(storage.of)).toEqual([]);
            if (harness.second !== undefined) await first.dispose();
          }
        },
      );
    }

    lawOfDeath("is written to its end at once by a next node whose clock is an hour behind", async () => {
      const clock = testClock();
      const first = await harness.open(clock);
      const mortal = wide.mortal(first, 2, true);
      const dying = await wide.widePath(clock, mortal.storage);
      dying.otherwise = never;
      const ids = await wide.subscribers(dying, 13);
      const [accepted] = await wide.publishMany(dying, 1);
      await dying.start();
      await meanwhile(clock, mortal.isDead, 10);
      await dying[Symbol.asyncDispose]();
      const behind = testClock(clock.now() - 3_600_000);
      const opened = behind.now();
      await using storage = disposed((await harness.reopen?.(first, behind)) ?? first);
      await using test = await wide.widePath(behind, storage.of);
      await test.start();
      await meanwhile(behind, wide.ended(test, accepted?.id as string), 1_000);
      expect(behind.now() - opened).toBeLessThan((harness.leaseMs ?? 0) + 60_000);
      expect(test.sent.map(({ subscriptionId }) => subscriptionId).toSorted()).toEqual(ids);
      if (harness.second !== undefined) await first.dispose();
    });

    law("is written by two nodes at once without one delivery more", async () => {
      const clock = testClock();
      await using one = disposed(await harness.open(clock));
      await using two = disposed((await harness.second?.(one.of, clock)) ?? one.of);
      await using first = await wide.widePath(clock, one.of);
      await using second = await wide.widePath(clock, two.of);
      const ids = await wide.subscribers(first, 31);
      const accepted = await wide.publishMany(first, 3);
      await Promise.all([first.start(), second.start()]);
      for (const { id } of accepted) await meanwhile(clock, wide.ended(first, id));
      const sent = [...first.sent, ...second.sent].map(({ subscriptionId }) => subscriptionId);
      expect(sent.toSorted()).toEqual([...ids, ...ids, ...ids].toSorted());
      expect(await wide.faults(one.of)).toEqual([]);
    });

    law(
      "goes to those that wanted it when it was accepted, whatever became of them before it was written",
      async () => {
        const clock = testClock();
        await using storage = disposed(await harness.open(clock));
        await using test = await wide.widePath(clock, storage.of);
        const subscriptions = test.parts.subscriptions;
        const [off = "", gone = "", paused = "", stopped = "", renamed = "", ...rest] = await wide.subscribers(
          test,
          16,
        );
        const by = { sub: "tester" };
        await subscriptions.update("key_1", off, { status: "disabled" }, by);
        const [accepted] = await wide.publishMany(test, 1);
        const id = accepted?.id as string;
        await subscriptions.remove("key_1", gone, by);
        await subscriptions.update("key_1", paused, { status: "disabled" }, by);
        await subscriptions.update("key_1", paused, { status: "active" }, by);
        await subscriptions.update("key_1", stopped, { status: "disabled" }, by);
        await subscriptions.update("key_1", renamed, { events: ["withdraw:sent"] }, by);
        await wide.subscribers(test, 1);
        const expected = {
          ...wide.everyOne(rest, "delivered"),
          [off]: "failed: subscription_disabled",
          [gone]: "cancelled: subscription_deleted",
          [paused]: "failed: subscription_disabled",
          [stopped]: "failed: subscription_disabled",
          [renamed]: "delivered",
        };
        await test.start();
        await meanwhile(clock, wide.ended(test, id));
        await meanwhile(clock, async () => (await storage.of.range("due:")).length === 0);
        expect(await wide.outcomes(test, id)).toEqual(expected);
        expect(test.sent.map(({ subscriptionId }) => subscriptionId).toSorted()).toEqual([...rest, renamed].toSorted());
        expect(await test.status(id)).toBe("failed");
        expect(await wide.faults(storage.of)).toEqual([]);
      },
    );
  },
);

/** A storage that is let go of when the test ends. */
const disposed = (of: Storage): AsyncDisposable & { readonly of: Storage } => ({
  of,
  [Symbol.asyncDispose]: () => of.dispose(),
});
