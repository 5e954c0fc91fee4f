/** Laws of the simple half: an unstorage driver that gives back what it was given. */
import { expect } from "vitest";
import { createStorage, type Driver } from "unstorage";
import type { Bench } from "./storage.ts";

const TEXTS = [
  "",
  "123",
  "true",
  "null",
  '{"a":1.0,"b":12345678901234567890}',
  'line one\nline two\r\n\ttab "quoted" \\ back',
  "żółć 漢字 🎉 \u2028 \u00e9",
  "x".repeat(256 * 1024),
];

export function driverLaws({ open, law, reopen }: Bench): void {
  law("gives back exactly the text it was given", async () => {
    const storage = await open();
    for (const [i, text] of TEXTS.entries()) await storage.setItem?.(`event:k:${i}`, text, {});
    for (const [i, text] of TEXTS.entries()) expect(await storage.getItem(`event:k:${i}`)).toBe(text);
    expect(await storage.getMany(TEXTS.map((_, i) => `event:k:${i}`))).toEqual(TEXTS);
  });

  law("says undefined for what is not there", async () => {
    const storage = await open();
    expect(await storage.getItem("meta:none")).toBeUndefined();
    expect(await storage.hasItem("meta:none", {})).toBe(false);
    await storage.setItem?.("meta:some", "", {});
    expect(await storage.hasItem("meta:some", {})).toBe(true);
    await storage.removeItem?.("meta:some", {});
    expect(await storage.hasItem("meta:some", {})).toBe(false);
    await storage.removeItem?.("meta:some", {});
  });

  law("answers getMany in the order asked, repeats and gaps included", async () => {
    const storage = await open();
    await storage.setItem?.("event:k:a", "A", {});
    await storage.setItem?.("due:s:b", "B", {});
    expect(await storage.getMany([])).toEqual([]);
    expect(await storage.getMany(["due:s:b", "event:k:none", "event:k:a", "due:s:b"])).toEqual([
      "B",
      undefined,
      "A",
      "B",
    ]);
  });

  law("lists and clears the keys of a base and no others", async () => {
    const storage = await open();
    const keys = ["event:a:1", "event:a:2", "event:ab:1", "eventid:a:1", "due:a:1"];
    for (const key of keys) await storage.setItem?.(key, "x", {});
    expect((await storage.getKeys("event:a:", {})).toSorted()).toEqual(["event:a:1", "event:a:2"]);
    expect((await storage.getKeys("", {})).toSorted()).toEqual(keys.toSorted());
    await storage.clear?.("event:a:", {});
    expect((await storage.getKeys("", {})).toSorted()).toEqual(["due:a:1", "event:ab:1", "eventid:a:1"]);
    await storage.clear?.("", {});
    expect(await storage.getKeys("", {})).toEqual([]);
  });

  law("lists more keys than any page holds", async () => {
    const storage = await open();
    const keys = Array.from({ length: 2_345 }, (_, i) => `failed:sub_1:${String(i).padStart(6, "0")}`);
    await storage.commit(keys.map((key) => ({ op: "put", key, value: "x" })));
    expect((await storage.getKeys("failed:", {})).toSorted()).toEqual(keys);
  });

  law(
    "serves unstorage's createStorage",
    async () => {
      const storage = await open();
      const simple = createStorage({ driver: storage as unknown as Driver });
      await simple.setItem("plugin:test:one", { a: [1, 2] });
      await simple.setItems([
        { key: "plugin:test:two", value: "two" },
        { key: "plugin:test:three", value: "three" },
      ]);
      expect(await simple.getItem("plugin:test:one")).toEqual({ a: [1, 2] });
      expect((await simple.getItem("plugin:test:none")) ?? undefined).toBeUndefined();
      expect(await simple.hasItem("plugin:test:two")).toBe(true);
      expect((await simple.getKeys("plugin:test")).toSorted()).toEqual([
        "plugin:test:one",
        "plugin:test:three",
        "plugin:test:two",
      ]);
      expect(await simple.getItems(["plugin:test:two", "plugin:test:none"])).toEqual([
        { key: "plugin:test:two", value: "two" },
        { key: "plugin:test:none", value: null },
      ]);
      await simple.removeItem("plugin:test:two");
      expect((await simple.getItem("plugin:test:two")) ?? undefined).toBeUndefined();
      await simple.clear();
      expect(await simple.getKeys()).toEqual([]);
    },
    "unstorage",
  );

  law("tells operators figures", async () => {
    const storage = await open();
    const status = await storage.status();
    expect(["fsync", "replicated", "volatile"]).toContain(storage.durability);
    for (const value of Object.values(status)) expect(["string", "number", "boolean"]).toContain(typeof value);
  });

  law("can be disposed of twice, and refuses commits afterwards", async () => {
    const storage = await open();
    await storage.setItem?.("meta:a", "1", {});
    await storage.dispose();
    await storage.dispose();
    await expect(storage.commit([{ op: "put", key: "meta:b", value: "2" }])).rejects.toMatchObject({
      name: "StorageError",
      fault: "unavailable",
    });
  });

  law(
    "still has everything after it was closed and opened again",
    async () => {
      const storage = await open();
      await storage.commit(TEXTS.map((value, i) => ({ op: "put", key: `event:k:${i}`, value })));
      await storage.commit([
        { op: "delete", key: "event:k:0" },
        { op: "put", key: "due:s:1", value: "k 0 0 0" },
      ]);
      const again = await reopen(storage);
      expect(await again.getMany(TEXTS.map((_, i) => `event:k:${i}`))).toEqual([undefined, ...TEXTS.slice(1)]);
      expect(await again.range("due:")).toEqual([{ key: "due:s:1", value: "k 0 0 0" }]);
      await again.commit([{ op: "put", key: "due:s:2", value: "k 0 0 0", if: null }]);
      expect(await again.getKeys("due:", {})).toEqual(["due:s:1", "due:s:2"]);
    },
    "reopen",
  );

  law(
    "finishes what was committed when it is disposed of meanwhile",
    async () => {
      const storage = await open();
      const under = Array.from({ length: 50 }, (_, i) =>
        storage.commit([{ op: "put", key: `event:k:${String(i).padStart(2, "0")}`, value: "x" }]).then(
          () => i,
          () => undefined,
        ),
      );
      const again = await reopen(storage);
      const kept = (await Promise.all(under)).filter((i) => i !== undefined);
      const keys = await again.getKeys("event:k:", {});
      for (const i of kept) expect(keys).toContain(`event:k:${String(i).padStart(2, "0")}`);
    },
    "reopen",
  );
}
