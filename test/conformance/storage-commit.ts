/** Laws of `commit`: all or nothing, in order, conditional, and told to those who watch. */
import { expect } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import type { Bench } from "./storage.ts";

const put = (key: string, value: string, cond?: string | null): Change =>
  cond === undefined ? { op: "put", key, value } : { op: "put", key, value, if: cond };

const conflict = async (commit: Promise<void>): Promise<readonly string[]> => {
  const error: unknown = await commit.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ConflictError);
  return (error as ConflictError).keys;
};

export function commitLaws({ open, law }: Bench): void {
  law("writes and deletes together", async () => {
    const storage = await open();
    await storage.commit([put("due:s:1", "line"), put("event:k:1", "event")]);
    await storage.commit([{ op: "delete", key: "due:s:1" }, put("delivery:s:1", "delivered")]);
    expect(await storage.getMany(["due:s:1", "event:k:1", "delivery:s:1"])).toEqual([undefined, "event", "delivered"]);
  });

  law("applies changes in the order given", async () => {
    const storage = await open();
    await storage.commit([put("meta:a", "1"), put("meta:a", "2"), put("meta:b", "1"), { op: "delete", key: "meta:b" }]);
    expect(await storage.getMany(["meta:a", "meta:b"])).toEqual(["2", undefined]);
    await storage.commit([{ op: "delete", key: "meta:a" }, put("meta:a", "3")]);
    expect(await storage.getItem("meta:a")).toBe("3");
  });

  law("takes an empty commit, deletes of what is not there, and a thousand changes", async () => {
    const storage = await open();
    await storage.commit([]);
    await storage.commit([{ op: "delete", key: "meta:none" }]);
    await storage.commit(Array.from({ length: 1_000 }, (_, i) => put(`event:k:${1_000 + i}`, `${i}`)));
    expect(await storage.getItem("event:k:1999")).toBe("999");
  });

  law("sees every commit that resolved before, in all ways of reading", async () => {
    const storage = await open();
    for (let i = 0; i < 20; i++) {
      await storage.commit([put(`event:k:${10 + i}`, `${i}`)]);
      expect(await storage.getItem(`event:k:${10 + i}`)).toBe(`${i}`);
      expect((await storage.range("event:k:", { reverse: true, limit: 1 }))[0]?.value).toBe(`${i}`);
    }
  });

  law(
    "changes nothing at all when a condition does not hold",
    async () => {
      const storage = await open();
      await storage.commit([put("meta:a", "1")]);
      const keys = await conflict(
        storage.commit([
          put("meta:new", "x"),
          put("meta:a", "2", "not this"),
          { op: "delete", key: "meta:b", if: "there" },
          { op: "check", key: "meta:a", if: "1" },
          put("meta:c", "3", null),
          { op: "check", key: "meta:a", if: null },
        ]),
      );
      expect(new Set(keys)).toEqual(new Set(["meta:a", "meta:b"]));
      expect(await storage.range("meta:")).toEqual([{ key: "meta:a", value: "1" }]);
    },
    "conditions",
    "atomic",
  );

  law(
    "judges conditions by the exact text",
    async () => {
      const storage = await open();
      await storage.commit([put("meta:a", "1"), put("meta:empty", "")]);
      for (const wrong of ["1.0", "01", " 1", "", null])
        expect(await conflict(storage.commit([put("meta:a", "2", wrong)]))).toEqual(["meta:a"]);
      expect(await conflict(storage.commit([{ op: "check", key: "meta:empty", if: null }]))).toEqual(["meta:empty"]);
      expect(await conflict(storage.commit([{ op: "check", key: "meta:none", if: "" }]))).toEqual(["meta:none"]);
      await storage.commit([put("meta:a", "żółć", "1"), { op: "check", key: "meta:empty", if: "" }]);
      await storage.commit([{ op: "delete", key: "meta:a", if: "żółć" }]);
      expect(await storage.getItem("meta:a")).toBeUndefined();
      await storage.commit([put("meta:a", "again", null)]);
    },
    "conditions",
  );

  law(
    "leaves what it had begun as it was, and judges a key that stands twice by what was before",
    async () => {
      const storage = await open();
      await storage.commit([put("meta:a", "1"), put("due:s:0000000000001:1", "k 0 0 0")]);
      const before = await storage.range("");
      const keys = await conflict(
        storage.commit([
          put("eventid:k:new", "x", null),
          { op: "delete", key: "meta:a", if: "1" },
          { op: "delete", key: "due:s:0000000000001:1", if: "k 0 0 0" },
          put("due:s:0000000000002:1", "k 0 0 1", null),
          { op: "delete", key: "meta:none", if: "there" },
        ]),
      );
      expect(keys).toEqual(["meta:none"]);
      expect(await storage.range("")).toEqual(before);
      await storage.commit([put("meta:b", "1", null), put("meta:b", "2", null)]);
      await storage.commit([{ op: "delete", key: "meta:a", if: "1" }, put("meta:a", "2", "1")]);
      expect(await storage.getMany(["meta:a", "meta:b"])).toEqual(["2", "2"]);
      await storage.commit([put("meta:b", "3"), { op: "delete", key: "meta:b", if: "2" }]);
      expect(await storage.getItem("meta:b")).toBeUndefined();
    },
    "conditions",
    "atomic",
  );

  law(
    "lets exactly one of a hundred writers have a key that must be absent",
    async () => {
      const storage = await open();
      const results = await Promise.allSettled(
        Array.from({ length: 100 }, (_, i) =>
          storage.commit([put("eventid:k:same", `${i}`, null), put(`event:k:${100 + i}`, `${i}`)]),
        ),
      );
      const winners = results.flatMap((result, i) => (result.status === "fulfilled" ? [i] : []));
      expect(winners).toHaveLength(1);
      expect(await storage.getItem("eventid:k:same")).toBe(`${winners[0]}`);
      expect(await storage.getKeys("event:k:", {})).toEqual([`event:k:${100 + (winners[0] as number)}`]);
      for (const result of results)
        if (result.status === "rejected") expect(result.reason).toBeInstanceOf(ConflictError);
    },
    "conditions",
    "atomic",
  );

  law(
    "loses no update of a hundred writers that compare and set",
    async () => {
      const storage = await open();
      await storage.commit([put("meta:count", "0")]);
      await Promise.all(Array.from({ length: 100 }, () => increment(storage, "meta:count")));
      expect(await storage.getItem("meta:count")).toBe("100");
    },
    "conditions",
  );

  law(
    "keeps a hundred writers' commits apart: a refused one harms no other",
    async () => {
      const storage = await open();
      await storage.commit([put("meta:taken", "x")]);
      const results = await Promise.allSettled(
        Array.from({ length: 100 }, (_, i) =>
          storage.commit([put(`event:k:${100 + i}`, "x"), ...(i % 3 === 0 ? [put("meta:taken", "y", null)] : [])]),
        ),
      );
      expect(results.map(({ status }) => status === "fulfilled")).toEqual(results.map((_, i) => i % 3 !== 0));
      expect(await storage.getKeys("event:k:", {})).toHaveLength(66);
    },
    "conditions",
    "atomic",
  );

  law(
    "tells of changed subscriptions and control keys before the commit resolves",
    async () => {
      const storage = await open();
      const told: string[] = [];
      const over = storage.watch((keys) => told.push(...keys));
      await storage.commit([put("subscription:k:sub_1", "a"), put("event:k:1", "e"), put("control:reload", "1")]);
      expect(told.toSorted()).toEqual(["control:reload", "subscription:k:sub_1"]);
      await storage.commit([put("event:k:2", "e"), put("subscriptions:x", "other shelf")]);
      await storage.commit([{ op: "delete", key: "control:reload" }]);
      expect(told.at(-1)).toBe("control:reload");
      expect(told).toHaveLength(3);
      over();
      await storage.commit([put("subscription:k:sub_1", "b")]);
      expect(told).toHaveLength(3);
    },
    "watch",
  );

  law(
    "tells nothing of a commit that was refused",
    async () => {
      const storage = await open();
      const told: string[] = [];
      storage.watch((keys) => told.push(...keys));
      await conflict(storage.commit([put("subscription:k:sub_1", "a", "absent")]));
      await storage.commit([{ op: "check", key: "subscription:k:sub_1", if: null }]);
      expect(told).toEqual([]);
    },
    "watch",
    "conditions",
  );
}

async function increment(storage: Storage, key: string): Promise<void> {
  for (;;) {
    const value = (await storage.getItem(key)) as string;
    try {
      return await storage.commit([put(key, `${Number(value) + 1}`, value)]);
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error;
    }
  }
}
