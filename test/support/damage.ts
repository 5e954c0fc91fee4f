/** Damaged records in tests: a relay on every storage, what it counts and logs, and a wait until nothing is due. */
import { afterAll, afterEach, expect } from "vitest";
import type { Log, Metrics } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { testClock } from "./clock.ts";
import { testPath, type PathOptions, type TestPath } from "./path.ts";
import type { AnyStorage } from "./storages.ts";

export const PATIENCE = { timeout: 240_000 };

/** Counts by name and label values, and keeps the errors that are logged. */
export function watching() {
  const counts = new Map<string, number>();
  const lines: { readonly message: string; readonly key: unknown }[] = [];
  const metrics: Metrics = {
    count(name, labels = {}) {
      const series = [name, ...Object.values(labels)].join(" ");
      counts.set(series, (counts.get(series) ?? 0) + 1);
    },
    gauge() {},
    observe() {},
  };
  const error: Log["error"] = (message, fields) => void lines.push({ message, key: fields?.["key"] });
  const log: Log = { debug() {}, info() {}, warn() {}, error };
  return { metrics, log, lines, count: (name: string) => counts.get(name) ?? 0 };
}

/** Flips one bit of the text, as what stores bytes gives it back. */
export function flipped(text: string, bit: number): string {
  const bytes = Buffer.from(text, "utf8");
  const at = bit % (bytes.length * 8);
  bytes[at >> 3] = (bytes[at >> 3] as number) ^ (1 << (at & 7));
  return bytes.toString("utf8");
}

export const put = (storage: Storage, key: string, value: string) => storage.commit([{ op: "put", key, value }]);

/** Until nothing is due or under way, moving the clock as far as it takes. */
export const settled = async (test: TestPath): Promise<void> =>
  await expect
    .poll(async () => {
      await test.clock.advance(20_000);
      return (await test.storage.range("due:")).length + test.parts.dispatcher.underWay();
    }, PATIENCE)
    .toBe(0);

/** Opens the storage for each test of a suite, with relays on it, and ends all of them after it. */
export function stageOf({ open, close }: AnyStorage, make: typeof testPath = testPath) {
  const ends: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end();
  });
  afterAll(close);
  return async () => {
    const clock = testClock();
    const { storage, reopen } = await open(clock);
    let current = storage;
    ends.push(async () => current.dispose());
    const relay = async (options: PathOptions = {}): Promise<TestPath> => {
      const test = await make({ clock, storage: current, retry: { firstDelayMs: 10, factor: 1 }, ...options });
      ends.push(async () => test[Symbol.asyncDispose]());
      return test;
    };
    /** Reads the same data anew; absent where it ends with the process. */
    const again = reopen && (async () => (current = await reopen()));
    return { clock, relay, again, storage };
  };
}
