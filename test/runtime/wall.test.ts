// A plug-in that throws or hangs is named, and stops neither the relay nor another plug-in.
import { describe, expect, it } from "vitest";
import type { Transport, TransportRequest } from "../../core/ports/transport.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Auth } from "../../core/ports/auth.ts";
import { Incidents } from "../../core/runtime/plugin/incidents.ts";
import { startOf } from "../../core/runtime/plugin/start.ts";
import { createWalls } from "../../core/runtime/plugin/wall.ts";
import { walledAuth, walledSource, walledStorage, walledTransport } from "../../core/runtime/plugin/walled.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testContext } from "../conformance/index.ts";
import { testClock } from "../support/clock.ts";
import { idleSource, OK, throwing } from "../support/plugins.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
const plugin = (kind: string) => ({ kind, name: "wild-1" });

function surroundings() {
  const [clock, log, metrics] = [testClock(), quietLog(), quietMetrics()];
  const incidents = new Incidents({ clock, log, metrics });
  return { clock, log, metrics, incidents, wallOf: createWalls(clock, incidents) };
}

const REQUEST: TransportRequest = {
  url: "wild://x",
  headers: { "webhook-id": "evt_1" },
  body: Buffer.from("{}"),
  timeoutMs: 1_000,
  subscriptionId: "sub_1",
  keyId: "key_1",
  messageId: "m",
};

function transportOf(over: Partial<Transport>) {
  const around = surroundings();
  const port = { schemes: ["wild"], send: () => Promise.resolve(OK), dispose: () => Promise.resolve(), ...over };
  const transport = walledTransport(port, around.wallOf(plugin("transport")));
  const send = (signal = new AbortController().signal, request = REQUEST) => transport.send(request, signal);
  return { ...around, transport, send };
}

describe("a transport that", () => {
  it("never answers is a timeout, soon after the deadline, which is counted with its name", async () => {
    const { send, clock, log, metrics, incidents } = transportOf({ send: never });
    const sent = send();
    await clock.advance(5_000);
    expect(await sent).toEqual({
      kind: "error",
      error: "timeout",
      detail: "the transport gave no reply within 1000 ms",
    });
    expect(metrics.counted.get("plugin_faults wild-1 send")).toBe(1);
    expect(log.lines[0]).toMatchObject({ message: "a plug-in failed", fields: { plugin: "wild-1", action: "send" } });
    expect(incidents.recent().get("transport:wild-1")).toContain("send: Error: no answer within 1000 ms");
    await clock.advance(61_000);
    expect(incidents.recent().size).toBe(0);
  });

  it("cannot say whether it is ready says so, wherever it is asked", () => {
    for (const [readiness, why] of [
      [throwing(), "its readiness fails: Error: broken"],
      [() => "away", "away"],
      [() => undefined, undefined],
    ] as const) {
      const own = readiness as () => string | undefined;
      expect(transportOf({ readiness: own }).transport.readiness?.()).toBe(why);
      const source = { ...idleSource(), readiness: own };
      expect(walledSource(source, surroundings().wallOf(plugin("source"))).readiness?.()).toBe(why);
    }
  });

  it("answers in its own time is not cut off by a process that stood still", async () => {
    const answer = Promise.withResolvers<typeof OK>();
    const [clock, { incidents, log }] = [testClock(), surroundings()];
    let stoodStill = 0;
    const jumping = { ...clock, monotonic: () => clock.monotonic() + stoodStill };
    const port = { schemes: ["wild"], send: () => answer.promise, dispose: () => Promise.resolve() };
    const wall = createWalls(jumping, incidents)(plugin("transport"));
    const transport = walledTransport(port, wall);
    const sent = transport.send(REQUEST, new AbortController().signal);
    await clock.whenSleeping();
    // One tick finds a minute gone: the transport gets the next turns to answer.
    stoodStill = 60_000;
    await clock.advance(600);
    answer.resolve(OK);
    expect(await sent).toEqual(OK);
    expect(log.lines).toEqual([]);
  });

  it("ignores that the attempt is called off does not hold it", async () => {
    const { send, clock, log } = transportOf({ send: never });
    const [control, reason] = [new AbortController(), new Error("deleted")];
    const sent = send(control.signal, { ...REQUEST, timeoutMs: 30_000 });
    const refused = expect(sent).rejects.toBe(reason);
    control.abort(reason);
    await clock.advance(2_000);
    await refused;
    expect(log.lines).toEqual([]);
  });

  it("rejects after the deadline, or answers twice, is heard once", async () => {
    const gate = Promise.withResolvers<never>();
    const { send, clock } = transportOf({ send: () => gate.promise });
    const sent = send();
    await clock.advance(5_000);
    gate.reject(new Error("late"));
    expect(await sent).toMatchObject({ kind: "error", error: "timeout" });
    const twice = new Promise<typeof OK>((resolve) => {
      resolve(OK);
      resolve({ ...OK, status: 500 } as never);
      throw new Error("and more");
    });
    expect(await transportOf({ send: () => twice }).send()).toEqual(OK);
  });

  it("throws at once is a fault with its name, and the attempt is not counted", async () => {
    const { send, log } = transportOf({ send: throwing(new TypeError("broken")) });
    await expect(send()).rejects.toThrow("broken");
    expect(log.lines[0]?.fields).toMatchObject({ kind: "transport", plugin: "wild-1", error: "TypeError: broken" });
  });

  it("cannot judge a URL, or never does, fails that request alone and in time", async () => {
    const thrower = transportOf({ problems: throwing() });
    await expect(thrower.transport.problems?.("wild://x")).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    expect(thrower.log.lines[0]?.fields).toMatchObject({ action: "problems", error: "Error: broken" });
    const hanging = transportOf({ problems: () => never() });
    const judged = expect(hanging.transport.problems?.("wild://x")).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    await hanging.clock.advance(10_000);
    await judged;
  });

  it("throws when it is to forget a subscription stops nobody", () => {
    const { transport, log } = transportOf({ forget: throwing() });
    transport.forget?.("sub_1");
    expect(log.lines[0]?.fields).toMatchObject({ action: "forget" });
  });

  it("is no transport ends the start with its name", () => {
    expect(() => transportOf({ send: undefined as never })).toThrow("the transport plug-in wild-1 cannot start");
  });
});

describe("a source that", () => {
  it("never stops is waited for as long as the stop may take; what it hands in then is refused", async () => {
    const { wallOf, clock, log } = surroundings();
    let handIn: ((request: never) => Promise<unknown>) | undefined;
    const accepted: unknown[] = [];
    const port = idleSource({ stop: never, start: (accept) => void (handIn = accept) });
    const source = walledSource(port, wallOf(plugin("source")));
    await source.start(async (request) => (accepted.push(request), []), { durability: "fsync" });
    const stopping = source.stop(3_000);
    await clock.advance(3_000);
    await stopping;
    expect(log.lines[0]?.fields).toMatchObject({
      plugin: "wild-1",
      action: "stop",
      error: "Error: not done within 3000 ms",
    });
    await expect(handIn?.({} as never)).rejects.toMatchObject({ code: "SHUTTING_DOWN" });
    expect(accepted).toEqual([]);
  });

  it("fails to stop is noted, and its stop is over", async () => {
    const { wallOf, log } = surroundings();
    const port = idleSource({ stop: () => Promise.reject(new Error("broken")) });
    await walledSource(port, wallOf(plugin("source"))).stop(1_000);
    expect(log.lines[0]?.fields).toMatchObject({ action: "stop", error: "Error: broken" });
  });
});

describe("the start of a plug-in that hangs", () => {
  it("is named in the log, and given up with its name", async () => {
    const { clock, log } = surroundings();
    const starting = startOf(plugin("source"), never, { clock, log, mostMs: 30_000 }).catch((error: unknown) => error);
    await clock.advance(30_000);
    expect(await starting).toMatchObject({
      exitCode: 69,
      message: "the source plug-in wild-1 cannot start: it has not after 30000 ms",
    });
    expect(log.lines.map(({ message, fields }) => [message, fields["plugin"]])).toEqual([
      ["a plug-in is still starting", "wild-1"],
      ["a plug-in is still starting", "wild-1"],
    ]);
  });
});

describe("the start of a plug-in that throws", () => {
  it("names it, whatever is thrown", async () => {
    const unreadable = Object.create(null) as Error;
    const muted = Object.assign(new Error("x"), { message: unreadable });
    for (const thrown of [unreadable, muted]) {
      const starting = startOf(plugin("source"), () => Promise.reject(thrown));
      await expect(starting).rejects.toMatchObject({
        exitCode: 78,
        message: "the source plug-in wild-1 cannot start: something that cannot be read",
      });
    }
  });
});

describe("an auth that", () => {
  const authOf = (over: Partial<Auth>) => {
    const around = surroundings();
    const port: Auth = { authenticate: async () => ({ refused: "no" }), ready: () => true, ...over };
    return { ...around, auth: walledAuth(port, around.wallOf(plugin("auth"))) };
  };
  const ask = {} as never;

  it("throws or hangs lets nobody in", async () => {
    const thrower = authOf({ authenticate: throwing() });
    expect(await thrower.auth.authenticate(ask)).toHaveProperty("refused");
    const hanging = authOf({ authenticate: never });
    const asked = hanging.auth.authenticate(ask);
    await hanging.clock.advance(20_000);
    expect(await asked).toHaveProperty("refused");
    const good = { sub: "a", keys: ["key_1"], amr: [], expiresAt: 1 };
    expect(await authOf({ authenticate: async () => good }).auth.authenticate(ask)).toEqual(good);
  });

  it("cannot read the relay's storage says so: that is no refusal of the token, and no fault of the plug-in", async () => {
    const down = new StorageError("unavailable", "down");
    for (const authenticate of [() => Promise.reject(down), throwing(down)]) {
      const { auth, log } = authOf({ authenticate });
      await expect(auth.authenticate(ask)).rejects.toBe(down);
      expect(log.lines).toEqual([]);
    }
  });

  it("hangs or throws when it is asked for the first run is named, and the wait for it ends", async () => {
    const calls = ({ log }: ReturnType<typeof authOf>) => log.lines.map(({ fields }) => fields?.["action"]);
    const hangs = authOf({ firstRun: never });
    const asked = expect(hangs.auth.firstRun?.()).rejects.toThrow("no answer within 10000 ms");
    await hangs.clock.advance(15_000);
    await asked;
    expect(calls(hangs)).toEqual(["firstRun"]);
    const throws = authOf({ firstRun: throwing() });
    await expect(throws.auth.firstRun?.()).rejects.toThrow("broken");
    expect(calls(throws)).toEqual(["firstRun"]);
  });

  it("throws when it is asked whether it is ready is not ready", () => {
    const { auth } = authOf({ ready: throwing() });
    expect(auth.ready()).toBe(false);
  });
});

describe("a route that", () => {
  it("throws or hangs is answered with an error, under the plug-in's name", async () => {
    const { wallOf, clock, log } = surroundings();
    const route = (handle: () => Promise<never>) =>
      walledSource(
        { ...idleSource(), routes: [{ method: "GET", path: "/wild", handle }] },
        wallOf(plugin("source")),
      ).routes?.[0]?.handle({} as never, undefined);
    await expect(route(throwing())).rejects.toThrow("broken");
    const hanging = expect(route(never)).rejects.toThrow("no answer within 120000 ms");
    await clock.advance(130_000);
    await hanging;
    expect(log.lines[0]?.fields).toMatchObject({ action: "GET /wild", error: "Error: broken" });
  });
});

describe("failures of one plug-in", () => {
  it("are one line a minute, and all of them are counted", async () => {
    const { incidents, clock, log, metrics } = surroundings();
    for (let i = 0; i < 50; i++) incidents.note(plugin("observer"), "accepted", new Error("broken"));
    await clock.advance(60_000);
    incidents.note(plugin("observer"), "accepted", new Error("broken"));
    expect(log.lines.map(({ fields }) => fields["count"])).toEqual([1, 50]);
    expect(metrics.counted.get("plugin_faults wild-1 accepted")).toBe(51);
  });

  it("are noted whatever is thrown", () => {
    const { incidents, log } = surroundings();
    const evil = { toString: throwing(new Error("evil")) };
    for (const thrown of [undefined, null, Symbol("x"), evil, Object.create(null)]) {
      incidents.note({ kind: "source", name: String(log.lines.length) }, "x", thrown);
    }
    expect(log.lines).toHaveLength(5);
  });
});

type Draft = { -readonly [K in keyof Storage]: Storage[K] } & { queue: Record<string, unknown> };
const unreadable = throwing(Object.create(null));

async function storageOf(change: (storage: Draft) => unknown = () => undefined) {
  const { clock, log, wallOf } = surroundings();
  const keeper = memory();
  const inner = (await keeper.setup(await testContext(keeper))) as unknown as Draft;
  const storage = walledStorage((change(inner) ?? inner) as Storage, wallOf(plugin("storage")));
  return { storage, clock, calls: () => log.lines.map(({ fields }) => fields?.["action"]) };
}

const claim = { limit: 10, perSubscription: 10, busy: new Map<string, number>() };

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
      await expect((async () => run(storage))()).rejects.toMatchObject({ name: "StorageError", fault });
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
    const silent = await asking(never);
    const asked = silent.storage.nodes?.ask("stop sub_1", wait);
    await silent.clock.advance(20_000);
    expect(await asked).toBe(false);
    for (const { calls } of [thrown, silent]) expect(calls()).toEqual(["nodes.ask"]);
  });

  it("fails to add lines keeps nothing that is stored from its answer", async () => {
    const { storage, calls } = await storageOf((draft) => void (draft.queue["add"] = unreadable));
    storage.queue.add([]);
    expect(calls()).toEqual(["queue.add"]);
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

  it("is not named for waiting for work", async () => {
    const { storage, clock, calls } = await storageOf((draft) => void (draft.queue["wake"] = () => never()));
    void storage.queue.wake(new AbortController().signal);
    await clock.advance(200_000);
    expect(calls()).toEqual([]);
  });
});

describe("a plug-in of the package itself", () => {
  it("is called directly; a copy of it is the operator's", async () => {
    const { wallOf } = surroundings();
    const keeper = memory();
    const storage = await keeper.setup(await testContext(keeper));
    expect(walledStorage(storage, wallOf(keeper))).toBe(storage);
    expect(walledStorage(storage, wallOf({ ...keeper }))).not.toBe(storage);
  });

  it("is waited for to stop no longer than another one", async () => {
    const { wallOf, clock, log } = surroundings();
    const source = walledSource(idleSource({ stop: never }), { ...wallOf(plugin("source")), own: true });
    const stopping = source.stop(1_000);
    await clock.advance(1_000);
    await stopping;
    expect(log.lines[0]?.fields).toMatchObject({ action: "stop", error: "Error: not done within 1000 ms" });
  });
});
