// A storage that throws or answers with what its port does not allow: the relay gets an error that it knows, with a name.
import { describe, expect, it } from "vitest";
import type { Lease, Storage } from "../../core/ports/storage.ts";
import { createDeadlines } from "../../core/runtime/contain/deadlines.ts";
import { createIncidents } from "../../core/runtime/contain/incidents.ts";
import { containStorage } from "../../core/runtime/contain/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { testContext } from "../conformance/index.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

type Draft = { -readonly [K in keyof Storage]: Storage[K] } & { queue: Record<string, unknown> };
const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
const unreadable = (): never => {
  throw Object.create(null);
};

async function storageOf(change: (storage: Draft) => unknown = () => undefined) {
  const [clock, log, metrics] = [testClock(), quietLog(), quietMetrics()];
  const incidents = createIncidents({ clock, log, metrics });
  const plugin = memory();
  const inner = (await plugin.setup(await testContext(plugin))) as unknown as Draft;
  const walls = { clock, incidents, deadlines: createDeadlines(clock) };
  const wild = (change(inner) ?? inner) as Storage;
  const storage = containStorage(wild, { kind: "storage", name: "wild-1" }, walls);
  return { storage, clock, calls: () => log.lines.map(({ fields }) => fields?.["action"]) };
}

const claim = { limit: 10, perSubscription: 10, busy: new Map<string, number>() };
const lease = (token: string): Lease => ({
  subscriptionId: "sub_1",
  keyId: "key_1",
  ordinal: "o",
  dueAt: 1,
  generation: 1,
  cycle: 1,
  attempts: 0,
  token,
});

describe("a storage that is as its port says", () => {
  it("answers as it is, and is not named", async () => {
    const { storage, calls } = await storageOf();
    await storage.commit([{ op: "put", key: "a:1", value: "1" }]);
    await storage.commit([{ op: "put", key: "a:2", value: "2" }]);
    expect(await storage.getItem("a:1")).toBe("1");
    expect(await storage.getMany(["a:3", "a:2"])).toEqual([undefined, "2"]);
    expect(await storage.range("a:", { reverse: true })).toEqual([
      { key: "a:2", value: "2" },
      { key: "a:1", value: "1" },
    ]);
    await expect(storage.commit([{ op: "put", key: "a:1", value: "", if: null }])).rejects.toThrow(
      expect.objectContaining({ name: "ConflictError" }),
    );
    expect([storage.durability, await storage.queue.claim(claim)]).toEqual(["volatile", []]);
    expect(calls()).toEqual([]);
  });
});

describe("a storage whose setup returns no storage", () => {
  it.each([
    ["nothing", () => 5],
    ["what throws when it is read", () => new Proxy({}, { get: unreadable })],
    ["one without a queue", (storage: Draft) => ({ ...storage, queue: undefined })],
    ["one whose nodes answer nothing", (storage: Draft) => ({ ...storage, nodes: { ask: () => true } })],
  ])("but %s cannot start, by name", async (_, change) => {
    await expect(storageOf(change)).rejects.toMatchObject({
      exitCode: 78,
      message: expect.stringContaining("the storage plug-in wild-1 cannot start") as unknown,
    });
  });
});

describe("a storage that fails in a way of its own", () => {
  it.each([
    ["commit", "uncertain", (storage: Storage) => storage.commit([])],
    ["getMany", "unavailable", (storage: Storage) => storage.getMany([])],
    ["range", "unavailable", (storage: Storage) => storage.range("a:")],
    ["status", "unavailable", (storage: Storage) => storage.status()],
  ] as const)("in %s rejects as %s, whatever it throws", async (call, fault, run) => {
    for (const broken of [unreadable, () => Promise.reject(new Error("broken"))]) {
      const { storage, calls } = await storageOf((draft) => void (draft[call] = broken));
      await expect(run(storage)).rejects.toMatchObject({ name: "StorageError", fault });
      expect(calls()).toEqual([call]);
    }
  });

  it("never answers whether it works ends the wait, and is named", async () => {
    const { storage, clock, calls } = await storageOf((draft) => void (draft.status = never));
    const asked = expect(storage.status()).rejects.toMatchObject({ fault: "unavailable" });
    await clock.advance(6_000);
    await asked;
    expect(calls()).toEqual(["status"]);
  });

  it("asks the other nodes in a way of its own is named, and not waited for without an end", async () => {
    const wait = { mostMs: 2_000, silentMs: 1_000 };
    const asking = (ask: () => unknown) =>
      storageOf(
        (storage) => void (storage.nodes = { ask, answer: () => () => undefined } as unknown as Storage["nodes"]),
      );
    const thrown = await asking(() => Promise.reject(new Error("lost")));
    await expect(thrown.storage.nodes?.ask("stop sub_1", wait)).rejects.toMatchObject({ fault: "unavailable" });
    const odd = await asking(() => Promise.resolve("yes"));
    await expect(odd.storage.nodes?.ask("stop sub_1", wait)).rejects.toMatchObject({ fault: "unavailable" });
    const silent = await asking(never);
    const asked = silent.storage.nodes?.ask("stop sub_1", wait);
    await silent.clock.advance(20_000);
    expect(await asked).toBe(false);
    for (const { calls } of [thrown, odd, silent]) expect(calls()).toEqual(["nodes.ask"]);
  });

  it("fails to add lines keeps nothing that is stored from its answer", async () => {
    const { storage, calls } = await storageOf((draft) => void (draft.queue["add"] = unreadable));
    storage.queue.add([]);
    expect(calls()).toEqual(["queue.add"]);
  });
});

describe("a storage that answers wrongly", () => {
  const entry = (key: string) => ({ key, value: "" });
  it.each([
    ["rows of another prefix", [entry("b:1")], {}],
    ["rows out of order", [entry("a:2"), entry("a:1")], {}],
    ["the same page again", [entry("a:1")], { after: "a:1" }],
    ["more rows than it was asked for", [entry("a:1"), entry("a:2")], { limit: 1 }],
    ["rows that are none", [null], {}],
    ["nothing", undefined, {}],
  ])("with %s is not believed", async (_, rows, options) => {
    const { storage, calls } = await storageOf((draft) => void (draft.range = async () => rows as never));
    await expect(storage.range("a:", options)).rejects.toMatchObject({ fault: "unavailable" });
    expect(calls()).toEqual(["range"]);
  });

  it("with fewer values than keys is not believed", async () => {
    const { storage } = await storageOf((draft) => void (draft.getMany = async () => []));
    await expect(storage.getMany(["a:1"])).rejects.toMatchObject({ fault: "unavailable" });
  });

  it("with a lease that is no yes sends nothing", async () => {
    const { storage } = await storageOf((draft) => void (draft.queue["extend"] = () => "no" as never));
    await expect((async () => storage.queue.extend(lease("1")))()).rejects.toMatchObject({ fault: "unavailable" });
  });

  it("with leases that it gave out before gives none out twice, and lets the worker rest", async () => {
    let given: unknown[] = [lease("1"), lease("1"), {}, null];
    const { storage, calls } = await storageOf((draft) => void (draft.queue["claim"] = async () => given as never));
    expect(await storage.queue.claim(claim)).toEqual([lease("1")]);
    await expect(storage.queue.claim(claim)).rejects.toMatchObject({ fault: "unavailable" });
    given = [lease("1"), lease("2")];
    expect(await storage.queue.claim(claim)).toEqual([lease("2")]);
    expect(calls()).toEqual(["queue.claim"]);
  });

  it("with a durability that there is not promises none", async () => {
    const { storage } = await storageOf((draft) =>
      Object.create(draft, { durability: { value: "eternal\r\nx: y", enumerable: true } }),
    );
    expect(storage.durability).toBe("volatile");
  });
});

describe("a storage that does not answer", () => {
  it("is named with the call, again and again, and its answer still counts", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { storage, clock, calls } = await storageOf((draft) => void (draft.commit = () => promise));
    let stored = false;
    const committing = storage.commit([]).then(() => void (stored = true));
    await clock.advance(20_000);
    expect(calls()).toEqual([]);
    await clock.advance(20_000);
    expect(calls()).toEqual(["commit"]);
    await clock.advance(200_000);
    expect(calls().length).toBeGreaterThan(2);
    expect(stored).toBe(false);
    resolve();
    await committing;
    const before = calls().length;
    await clock.advance(200_000);
    expect(calls().length).toBe(before);
  });

  it("is not named for waiting for work, nor after it was let go", async () => {
    const { storage, clock, calls } = await storageOf((draft) => {
      draft.queue["wake"] = () => never();
      draft.getItem = () => never();
    });
    void storage.queue.wake(new AbortController().signal);
    void storage.getItem("a:1");
    await clock.advance(20_000);
    await storage.dispose();
    await clock.advance(200_000);
    expect(calls()).toEqual([]);
  });
});
