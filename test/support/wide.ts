/** Wide events in tests: small bounds, many subscriptions, a node that dies in the middle, and a wait for storage. */
import type { FanoutBounds } from "../../core/publish/write-event.ts";
import { verifyStorage } from "../../core/maintenance/verify-storage.ts";
import { StorageError } from "../../core/model/errors.ts";
import { isFanoutQueue } from "../../core/model/schema.ts";
import type { Accepted } from "../../core/ports/source.ts";
import type { Storage } from "../../core/ports/storage.ts";
import type { TestClock } from "./clock.ts";
import { testPath, type PathOptions, type TestPath } from "./path.ts";

/** How a test opens a storage, and what it opens again after a crash or beside it. */
export interface WideHarness {
  open(clock: TestClock): Promise<Storage> | Storage;
  /** The same data for another life of the process. Left out: what is open is used further. */
  reopen?(storage: Storage, clock: TestClock): Promise<Storage>;
  /** The same data for another process. Left out: two nodes share what is open. */
  second?(storage: Storage, clock: TestClock): Promise<Storage>;
  /** After so long a lease of a dead node lapses, ms. */
  readonly leaseMs?: number;
}

/** Wide from six deliveries on, written five at a time. */
export const SMALL: FanoutBounds = { perEvent: 5, perCommit: 20, few: 3, page: 5 };

export const widePath = (clock: TestClock, storage: Storage, more: PathOptions = {}): Promise<TestPath> =>
  testPath({ clock, storage, fanout: SMALL, retry: { attempts: 1 }, perKey: 10_000, ...more });

/** So many subscriptions to `deposit:paid`. */
export async function subscribers(test: TestPath, count: number, keyId = "key_1"): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push(await test.subscribe(["deposit:paid"], keyId));
  return ids.toSorted();
}

/** Publishes so many in one batch. */
export async function publishMany(test: TestPath, count: number, over: object = {}): Promise<readonly Accepted[]> {
  const text = JSON.stringify({ type: "deposit:paid", keyId: "key_1", data: { n: 1 }, ...over });
  const publications = Array.from({ length: count }, (_, i) => ({ text, path: count === 1 ? "" : `[${i}]` }));
  return await test.parts.publisher.accept({ publications, source: "test" });
}

export const ended =
  (test: TestPath, id: string, keyId = "key_1") =>
  async (): Promise<boolean> =>
    (await test.parts.history.event(keyId, id))?.status !== "pending";

/** The status of each delivery of an event, by subscription. */
export async function outcomes(test: TestPath, id: string, keyId = "key_1"): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for await (const page of test.parts.history.everyDelivery(keyId, id)) {
    for (const one of page)
      found[one.subscriptionId] = one.reason === undefined ? one.status : `${one.status}: ${one.reason}`;
  }
  return found;
}

export const everyOne = (ids: readonly string[], outcome: string): Record<string, string> =>
  Object.fromEntries(ids.map((id) => [id, outcome]));

/** Resolves to what `relay check --data` would say. */
export const faults = async (storage: Storage): Promise<readonly unknown[]> => (await verifyStorage(storage)).faults;

export interface Mortal {
  /** The storage as the node sees it. */
  readonly storage: Storage;
  isDead(): boolean;
}

/**
 * A node that dies at its nth page of a fan-out: from then on nothing that it asks of the storage is done.
 * @param stored whether that page was still stored
 */
export function mortal(inner: Storage, pages: number, stored: boolean): Mortal {
  let left = pages;
  let dead = false;
  const gone = (): never => {
    throw new StorageError("unavailable", "the node is dead");
  };
  const alive = <T extends object>(of: T, over: Partial<T>): T =>
    new Proxy(of, {
      get(target, name) {
        const own = over[name as keyof T] ?? (Reflect.get(target, name) as unknown);
        if (typeof own !== "function") return own;
        return (...args: unknown[]) =>
          dead ? Promise.reject(new StorageError("unavailable", "dead")) : own.apply(target, args);
      },
    });
  const queue = alive(inner.queue, {
    async settle(lease, ...rest) {
      if (isFanoutQueue(lease.subscriptionId) && left-- <= 1) {
        if (stored) await inner.queue.settle(lease, ...rest);
        dead = true;
        gone();
      }
      await inner.queue.settle(lease, ...rest);
    },
  });
  return { storage: alive(inner, { queue } as Partial<Storage>), isDead: () => dead };
}
