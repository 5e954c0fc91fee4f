import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Driver } from "unstorage";
import fsDriver from "unstorage/drivers/fs-lite";
import memoryDriver from "unstorage/drivers/memory";
import { backupLines, canTap } from "../../core/maintenance/backup.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { unstorage } from "../../plugins/storage/unstorage.ts";
import { describeStorage } from "../conformance/storage.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { quietLog } from "../support/quiet.ts";

const clock = testClock();
const folders = new Map<Storage, string>();
const dirs: string[] = [];

afterAll(async () => {
  for (const dir of dirs) await rm(dir, { recursive: true, force: true });
});

async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "relay-unstorage-"));
  dirs.push(dir);
  return dir;
}

async function openIn(base: string): Promise<Storage> {
  const storage = await unstorage(fsDriver({ base })).setup(pluginContext(clock, base));
  folders.set(storage, base);
  return storage;
}

describeStorage("unstorage(memory)", {
  clock,
  open: async () => unstorage(memoryDriver()).setup(pluginContext(clock, "/nonexistent")),
  skips: { reopen: "this driver forgets everything when it is closed" },
  // An item a row.
  subscriptions: 12,
  publishers: 4,
  publisherSubscriptions: 0,
});

describeStorage("unstorage(fs-lite)", {
  clock,
  open: async () => openIn(await folder()),
  async reopen(storage) {
    await storage.dispose();
    return openIn(folders.get(storage) as string);
  },
  runs: 20,
  backlog: 3_000,
  // A file a row.
  subscriptions: 8,
  publishers: 4,
  publisherSubscriptions: 0,
});

/** A driver that dies at its nth write: from then on nothing is done and everything fails. */
function mortal(inner: Driver, writes: number): Driver {
  let left = writes;
  const write = async (work: () => unknown): Promise<void> => {
    if (left <= 0) throw new Error("gone");
    left--;
    await work();
  };
  return {
    ...inner,
    setItem: (key, value, options) => write(() => inner.setItem?.(key, value, options)),
    removeItem: (key, options) => write(() => inner.removeItem?.(key, options)),
    dispose: () => {},
  };
}

describe("unstorage(driver) when the process dies", () => {
  it("has all of a commit or nothing of it, wherever it was cut off", async () => {
    for (let writes = 2; writes < 12; writes++) {
      const inner = { ...memoryDriver(), dispose: () => {} };
      const storage = await unstorage(mortal(inner, writes)).setup(pluginContext(clock, "/nonexistent"));
      const changes = ["a", "b", "c"].map((name) => ({ op: "put" as const, key: `event:k:${name}`, value: name }));
      const end = await storage.commit(changes).then(
        () => "committed",
        (error: { fault?: string }) => error.fault,
      );
      await storage.dispose();
      const again = await unstorage(inner).setup(pluginContext(clock, "/nonexistent"));
      const found = await again.range("event:k:");
      expect([0, 3]).toContain(found.length);
      if (end === "committed") expect(found).toHaveLength(3);
      if (end === "unavailable") expect(found).toHaveLength(0);
      expect(["committed", "unavailable", "uncertain"]).toContain(end);
    }
  });

  it("leaves no journal behind that the driver wrote although it said that it could not", async () => {
    let liar = false;
    const inner = { ...memoryDriver(), dispose: () => {} };
    const driver: Driver = {
      ...inner,
      setItem: async (key, value, options) => {
        await inner.setItem?.(key, value, options);
        if (liar) throw new Error("no answer");
      },
    };
    const storage = await unstorage(driver).setup(pluginContext(clock, "/nonexistent"));
    liar = true;
    const changes = ["a", "b"].map((name) => ({ op: "put" as const, key: `event:k:${name}`, value: name }));
    await expect(storage.commit(changes)).rejects.toMatchObject({ fault: "unavailable" });
    const again = await unstorage(inner).setup(pluginContext(clock, "/nonexistent"));
    expect(await again.range("event:k:")).toEqual([]);
    await again.dispose();
  });

  it("goes on with what was decided as soon as the driver works again", async () => {
    let broken = false;
    const inner = memoryDriver();
    const driver: Driver = {
      ...inner,
      setItem: (key, value, options) => {
        if (broken && key.includes("+b")) throw new Error("busy");
        return inner.setItem?.(key, value, options);
      },
    };
    const storage = await unstorage(driver).setup(pluginContext(clock, "/nonexistent"));
    broken = true;
    const changes = ["a", "b"].map((name) => ({ op: "put" as const, key: `event:k:${name}`, value: name }));
    await expect(storage.commit(changes)).rejects.toMatchObject({ fault: "uncertain" });
    expect(await storage.range("event:k:")).toHaveLength(2);
    await expect(storage.commit([{ op: "put", key: "meta:x", value: "1" }])).rejects.toMatchObject({
      fault: "unavailable",
    });
    broken = false;
    await storage.commit([{ op: "put", key: "meta:x", value: "1" }]);
    expect(await storage.getMany(["event:k:a", "event:k:b", "meta:x"])).toEqual(["a", "b", "1"]);
  });

  it("has no commit conflict with another that was written together with it and failed", async () => {
    let broken = false;
    const inner = memoryDriver();
    const driver: Driver = {
      ...inner,
      setItem: (key, value, options) => {
        if (broken) throw new Error("busy");
        return inner.setItem?.(key, value, options);
      },
    };
    const storage = await unstorage(driver).setup(pluginContext(clock, "/nonexistent"));
    await storage.commit([{ op: "put", key: "meta:x", value: "1" }]);
    broken = true;
    const both = [
      storage.commit([
        { op: "delete", key: "meta:x", if: "1" },
        { op: "put", key: "meta:y", value: "1" },
      ]),
      storage.commit([{ op: "put", key: "meta:x", value: "2", if: "1" }]),
    ];
    const ends = await Promise.allSettled(both);
    expect(ends.map((end) => end.status === "rejected" && (end.reason.fault ?? end.reason.name))).toEqual([
      "unavailable",
      "unavailable",
    ]);
    broken = false;
    await storage.commit([{ op: "put", key: "meta:x", value: "2", if: "1" }]);
  });
});

it("writes full batches of many publishers as items that fit into memory, and small ones together", async () => {
  const journals: number[] = [];
  const inner = memoryDriver();
  const driver: Driver = {
    ...inner,
    setItem: (name, value, options) => {
      if (name.includes("journal")) journals.push(value.length);
      return inner.setItem?.(name, value, options);
    },
  };
  const storage = await unstorage(driver).setup(pluginContext(clock, "/nonexistent"));
  const commit = (n: number, value: string) =>
    storage.commit(["a", "b"].map((part) => ({ op: "put", key: `event:k:${n}${part}`, value })));
  const half = "x".repeat(4 * 1024 * 1024);
  await Promise.all(Array.from({ length: 8 }, (_, n) => commit(n, half)));
  expect(Math.max(...journals)).toBeLessThan(3 * half.length);
  expect(await storage.range("event:k:", { limit: 20 })).toHaveLength(16);
  journals.length = 0;
  await Promise.all(Array.from({ length: 100 }, (_, n) => commit(n, "small")));
  expect(journals).toHaveLength(1);
});

describe("unstorage(driver) says what it cannot promise", () => {
  it("warns once at start, and calls itself volatile", async () => {
    const log = quietLog();
    const storage = await unstorage(memoryDriver()).setup(pluginContext(clock, "/nonexistent", { log }));
    expect(storage.durability).toBe("volatile");
    expect(log.lines.filter(({ level }) => level === "warn")).toHaveLength(1);
  });

  it("names a driver that cannot be written to as a problem of the config", () => {
    const { setItem: _, ...readOnly } = memoryDriver();
    expect(unstorage(readOnly).problems).toEqual([
      { path: "driver", message: "the driver cannot be written to: it has no setItem" },
    ]);
  });

  it("refuses a driver that does not keep what it is given", async () => {
    const forgetful: Driver = { ...memoryDriver(), getItem: () => null };
    await expect(unstorage(forgetful).setup(pluginContext(clock, "/nonexistent"))).rejects.toMatchObject({
      exitCode: 78,
    });
  });

  it("tells when the driver has dropped a record by itself", async () => {
    const log = quietLog();
    const inner = memoryDriver();
    const storage = await unstorage(inner).setup(pluginContext(clock, "/nonexistent", { log }));
    await storage.setItem?.("event:k:1", "x", {});
    for (const key of await inner.getKeys("", {})) await inner.removeItem?.(key, {});
    expect(await storage.range("event:k:")).toEqual([]);
    expect(log.lines.filter(({ level }) => level === "error")).toHaveLength(1);
  });

  it("reads an item again that was being written while it was read", async () => {
    const inner = memoryDriver();
    const half = Promise.withResolvers<void>();
    const seen = Promise.withResolvers<void>();
    let slow = false;
    const driver: Driver = {
      ...inner,
      async getItem(name, options) {
        if (slow && name.includes("alice")) await half.promise;
        const item = await inner.getItem(name, options);
        seen.resolve();
        return item;
      },
      async setItem(name, value, options) {
        if (slow && name.includes("alice")) {
          await inner.setItem?.(name, value.slice(0, 12), options);
          half.resolve();
          await seen.promise;
        }
        await inner.setItem?.(name, value, options);
      },
    };
    const storage = await unstorage(driver).setup(pluginContext(clock, "/nonexistent"));
    const put = (value: string) => storage.commit([{ op: "put", key: "user:alice", value }]);
    await put("one");
    slow = true;
    const [value] = await Promise.all([storage.getItem("user:alice"), put("two")]);
    expect(value).toBe("two");
    await storage.dispose();
  });

  it("knows a torn item for what it is", async () => {
    const inner = memoryDriver();
    const storage = await unstorage(inner).setup(pluginContext(clock, "/nonexistent"));
    await storage.setItem?.("event:k:1", "whole", {});
    const [name] = (await inner.getKeys("", {})) as [string];
    await inner.setItem?.(name, String(await inner.getItem(name, {})).slice(0, -1), {});
    await expect(storage.getItem("event:k:1")).rejects.toMatchObject({ fault: "broken" });
  });

  it("reads a torn item as empty among others, and names it until it is written again", async () => {
    const inner = memoryDriver();
    const log = quietLog();
    const storage = await unstorage(inner).setup(pluginContext(clock, "/nonexistent", { log }));
    await storage.commit([{ op: "put", key: "health:sub_1", value: "1" }]);
    const [name] = (await inner.getKeys("", {})) as [string];
    await inner.setItem?.(name, "", {});
    await storage.commit([{ op: "put", key: "health:sub_2", value: "2" }]);
    for (let n = 0; n < 2; n++) expect(await storage.range("health:")).toMatchObject([{ value: "" }, { value: "2" }]);
    expect(await storage.status()).toMatchObject({ unreadable: 1 });
    expect(log.lines.filter(({ level }) => level === "error")).toMatchObject([{ fields: { key: "health:sub_1" } }]);
    await storage.commit([{ op: "put", key: "health:sub_1", value: "3" }]);
    expect(await storage.range("health:")).toHaveLength(2);
    expect(await storage.status()).toMatchObject({ unreadable: 0 });
  });

  it("gives no backup that passes for a whole one while an item is torn", async () => {
    const inner = memoryDriver();
    const storage = await unstorage(inner).setup(pluginContext(clock, "/nonexistent"));
    await storage.commit([{ op: "put", key: "health:sub_1", value: "1" }]);
    const [name] = (await inner.getKeys("", {})) as [string];
    await inner.setItem?.(name, "", {});
    if (!canTap(storage)) throw new Error("no tap");
    for (let n = 0; n < 2; n++) {
      const lines = Array.fromAsync(backupLines(storage, { storage: "unstorage", at: 0 }));
      await expect(lines).rejects.toThrow("1 file or item could not be read");
    }
  });
});
