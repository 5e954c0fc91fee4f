/** Laws of `range`: byte order, exact prefixes, pages in both directions. */
import { expect } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import type { Bench } from "./storage.ts";

const fill = async (storage: Storage, keys: readonly string[]): Promise<void> => {
  // Written in another order than they are read in.
  const mixed = keys.toSorted((a, b) => a.length - b.length || (a < b ? 1 : -1));
  await storage.commit(mixed.map((key) => ({ op: "put", key, value: `v ${key}` })));
};
const keysOf = async (storage: Storage, ...asked: Parameters<Storage["range"]>): Promise<readonly string[]> =>
  (await storage.range(...asked)).map(({ key }) => key);

export function rangeLaws({ open, law }: Bench): void {
  law("is empty where there is nothing", async () => {
    const storage = await open();
    expect(await storage.range("event:a:")).toEqual([]);
    await fill(storage, ["event:b:1"]);
    expect(await storage.range("event:a:")).toEqual([]);
    expect(await storage.range("event:a:", { reverse: true })).toEqual([]);
  });

  law("never strays beyond its prefix", async () => {
    const storage = await open();
    const keys = [
      "event:a:1",
      "event:a:2",
      "event:a-:1",
      "event:a~:1",
      "event:a",
      "event:ab:1",
      "event:A:1",
      "event:",
      "eventid:a:1",
      "due:a:1",
      "failed:a:1",
    ];
    await fill(storage, keys);
    expect(await keysOf(storage, "event:a:")).toEqual(["event:a:1", "event:a:2"]);
    expect(await keysOf(storage, "event:a:", { reverse: true })).toEqual(["event:a:2", "event:a:1"]);
    expect(await keysOf(storage, "event:a~")).toEqual(["event:a~:1"]);
    expect(await keysOf(storage, "event:a-:")).toEqual(["event:a-:1"]);
    expect(await keysOf(storage, "event:")).toEqual(keys.filter((key) => key.startsWith("event:")).toSorted());
    expect(await keysOf(storage, "event")).toEqual(keys.filter((key) => key.startsWith("event")).toSorted());
    expect(await keysOf(storage, "")).toEqual(keys.toSorted());
  });

  law("orders by byte, not by locale, length or number", async () => {
    const storage = await open();
    const keys = ["10", "9", "A", "Z", "_", "a", "a-b", "a.b", "a:b", "ab", "a~b", "z", "~"].map(
      (end) => `type:${end}`,
    );
    await fill(storage, keys);
    const bytes = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(await keysOf(storage, "type:")).toEqual(bytes);
    expect(await keysOf(storage, "type:", { reverse: true })).toEqual(bytes.toReversed());
  });

  law("gives values with their keys", async () => {
    const storage = await open();
    await fill(storage, ["event:a:1", "due:a:1"]);
    expect(await storage.range("event:a:")).toEqual([{ key: "event:a:1", value: "v event:a:1" }]);
    expect(await storage.range("due:")).toEqual([{ key: "due:a:1", value: "v due:a:1" }]);
  });

  law("starts behind `after`, whether or not that key exists", async () => {
    const storage = await open();
    const keys = ["event:a:10", "event:a:20", "event:a:30", "event:a:40"];
    await fill(storage, [...keys, "event:b:1", "event:Z:1"]);
    expect(await keysOf(storage, "event:a:", { after: "event:a:20" })).toEqual(keys.slice(2));
    expect(await keysOf(storage, "event:a:", { after: "event:a:25" })).toEqual(keys.slice(2));
    expect(await keysOf(storage, "event:a:", { after: "event:a:2" })).toEqual(keys.slice(1));
    expect(await keysOf(storage, "event:a:", { after: "event:a:40" })).toEqual([]);
    expect(await keysOf(storage, "event:a:", { after: "event:b:1" })).toEqual([]);
    expect(await keysOf(storage, "event:a:", { after: "event:Z:1" })).toEqual(keys);
    expect(await keysOf(storage, "event:a:", { after: "due:x" })).toEqual(keys);
  });

  law("starts below `after` when it reads backwards", async () => {
    const storage = await open();
    const keys = ["event:a:10", "event:a:20", "event:a:30", "event:a:40"];
    await fill(storage, [...keys, "event:b:1", "event:Z:1"]);
    const back = keys.toReversed();
    expect(await keysOf(storage, "event:a:", { after: "event:a:30", reverse: true })).toEqual(back.slice(2));
    expect(await keysOf(storage, "event:a:", { after: "event:a:35", reverse: true })).toEqual(back.slice(1));
    expect(await keysOf(storage, "event:a:", { after: "event:a:10", reverse: true })).toEqual([]);
    expect(await keysOf(storage, "event:a:", { after: "event:Z:1", reverse: true })).toEqual([]);
    expect(await keysOf(storage, "event:a:", { after: "event:b:1", reverse: true })).toEqual(back);
    expect(await keysOf(storage, "event:a:", { after: "event:a:~", reverse: true })).toEqual(back);
  });

  law("skips from one subscription to the next", async () => {
    const storage = await open();
    await fill(storage, ["due:sub_a:1", "due:sub_a:2", "due:sub_ab:1", "due:sub_b:1"]);
    expect(await keysOf(storage, "due:", { after: "due:sub_a:~", limit: 1 })).toEqual(["due:sub_ab:1"]);
    expect(await keysOf(storage, "due:", { after: "due:sub_ab:~", limit: 1 })).toEqual(["due:sub_b:1"]);
    expect(await keysOf(storage, "due:", { after: "due:sub_b:~", limit: 1 })).toEqual([]);
  });

  law("gives a hundred at most unless asked, and pages meet without gap or repeat", async () => {
    const storage = await open();
    const keys = Array.from({ length: 523 }, (_, i) => `delivery:s:${String(i).padStart(4, "0")}`);
    await fill(storage, keys);
    expect(await keysOf(storage, "delivery:s:")).toEqual(keys.slice(0, 100));
    expect(await keysOf(storage, "delivery:s:", { limit: 1_000 })).toEqual(keys);
    expect(await keysOf(storage, "delivery:s:", { limit: 0 })).toEqual([]);
    for (const reverse of [false, true]) {
      const seen: string[] = [];
      for (let after: string | undefined; ; after = seen.at(-1)) {
        const page = await keysOf(storage, "delivery:s:", { after, limit: 37, reverse });
        if (page.length === 0) break;
        seen.push(...page);
      }
      expect(seen).toEqual(reverse ? keys.toReversed() : keys);
    }
  });
}
