// A plug-in that throws, hangs, answers twice or changes what it is given stops neither the relay nor another plug-in.
import { describe, expect, it } from "vitest";
import type { Transport, TransportRequest } from "../../core/ports/transport.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Auth } from "../../core/ports/auth.ts";
import { createDeadlines } from "../../core/runtime/contain/deadlines.ts";
import { createIncidents } from "../../core/runtime/contain/incidents.ts";
import { containAuth } from "../../core/runtime/contain/auth.ts";
import { containRoutes } from "../../core/runtime/contain/routes.ts";
import { wallOf } from "../../core/runtime/contain/wall.ts";
import { containSource } from "../../core/runtime/contain/source.ts";
import { containTransport } from "../../core/runtime/contain/transport.ts";
import { startOf } from "../../core/runtime/plugin-faults.ts";
import { testClock } from "../support/clock.ts";
import { idleSource, OK } from "../support/plugins.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
const plugin = (kind: string) => ({ kind, name: "wild-1" });

function surroundings() {
  const [clock, log, metrics] = [testClock(), quietLog(), quietMetrics()];
  const incidents = createIncidents({ clock, log, metrics });
  return { clock, log, metrics, incidents, walls: { clock, incidents, deadlines: createDeadlines(clock) } };
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
  const transport = containTransport(port, plugin("transport"), around.walls, (text) => text);
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
    expect(incidents.recent().get("transport:wild-1")).toContain("send: Error: no reply within 1000 ms");
    await clock.advance(61_000);
    expect(incidents.recent().size).toBe(0);
  });

  it("cannot say whether it is ready says so, wherever it is asked", () => {
    const thrown = (): never => {
      throw new Error("broken");
    };
    for (const [readiness, why] of [
      [thrown, "its readiness fails: Error: broken"],
      [() => 7, "its readiness is no text"],
      [() => "away", "away"],
      [() => undefined, undefined],
    ] as const) {
      const own = readiness as () => string | undefined;
      expect(transportOf({ readiness: own }).transport.readiness?.()).toBe(why);
      const source = { ...idleSource(), readiness: own };
      expect(containSource(source, plugin("source"), surroundings().walls).readiness?.()).toBe(why);
    }
  });

  it("answers in its own time is not cut off by a process that stood still", async () => {
    const answer = Promise.withResolvers<typeof OK>();
    const [clock, { walls, log }] = [testClock(), surroundings()];
    let stoodStill = 0;
    const jumping = { ...clock, monotonic: () => clock.monotonic() + stoodStill };
    const port = { schemes: ["wild"], send: () => answer.promise, dispose: () => Promise.resolve() };
    const own = { ...walls, clock: jumping, deadlines: createDeadlines(jumping) };
    const transport = containTransport(port, plugin("transport"), own, (text) => text);
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
    const { send, log } = transportOf({
      send() {
        throw new TypeError("broken");
      },
    });
    await expect(send()).rejects.toThrow("broken");
    expect(log.lines[0]?.fields).toMatchObject({ kind: "transport", plugin: "wild-1", error: "TypeError: broken" });
  });

  it("changes what it is given changes nothing for others", async () => {
    const body = Buffer.from("the bytes of the event");
    const { send } = transportOf({
      send(request) {
        request.body.fill(0);
        (request as { url: string }).url = "elsewhere";
        return Promise.resolve(OK);
      },
    });
    const request = { ...REQUEST, body };
    await send(undefined, request);
    expect(body.toString()).toBe("the bytes of the event");
    expect(request.url).toBe(REQUEST.url);
  });

  it("answers with no reply is a fault; what is too long of a reply is cut", async () => {
    for (const reply of [
      undefined,
      null,
      7,
      {},
      { kind: "response" },
      { ...OK, status: "200" },
      { ...OK, status: 99 },
    ]) {
      const { send, log } = transportOf({ send: () => Promise.resolve(reply as never) });
      await expect(send()).rejects.toThrow("it answered with");
      expect(log.lines).toHaveLength(1);
    }
    await expect(transportOf({ send: async () => ({ ...OK, excerpt: "text" }) as never }).send()).rejects.toThrow();
    await expect(
      transportOf({ send: async () => ({ kind: "error", error: "boring", detail: "" }) as never }).send(),
    ).rejects.toThrow();
    const long = await transportOf({ send: async () => ({ ...OK, excerpt: new Uint8Array(9_000) }) }).send();
    expect(long).toMatchObject({ truncated: true, excerpt: { length: 4_096 } });
    const detail = await transportOf({
      send: async () => ({ kind: "error", error: "tls", detail: "x".repeat(9_000) }),
    }).send();
    expect(detail).toMatchObject({ detail: "x".repeat(500) });
  });

  it("answers with what cannot be read is a fault with its name", async () => {
    const evil = {
      get kind() {
        throw new Error("evil");
      },
    };
    const refused = { kind: "error", error: "reset", detail: Object.create(null) as string };
    for (const reply of [evil, { ...OK, hidden: 5 }, refused]) {
      const { send, incidents } = transportOf({ send: () => Promise.resolve(reply as never) });
      await expect(send()).rejects.toThrow(Error);
      expect(incidents.recent().get("transport:wild-1")).toContain("send: ");
    }
  });

  it("cannot judge a URL, or never does, fails that request alone and in time", async () => {
    const throwing = transportOf({
      problems() {
        throw new Error("broken");
      },
    });
    await expect(throwing.transport.problems?.("wild://x")).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    expect(throwing.log.lines[0]?.fields).toMatchObject({ action: "problems", error: "Error: broken" });
    const hanging = transportOf({ problems: () => never() });
    const judged = expect(hanging.transport.problems?.("wild://x")).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    await hanging.clock.advance(10_000);
    await judged;
    await expect(transportOf({ problems: () => 7 as never }).transport.problems?.("wild://x")).rejects.toThrow();
  });

  it("throws when it is to forget a subscription stops nobody", () => {
    const { transport, log } = transportOf({
      forget() {
        throw new Error("broken");
      },
    });
    transport.forget?.("sub_1");
    expect(log.lines[0]?.fields).toMatchObject({ action: "forget" });
  });

  it("is no transport ends the start with its name", () => {
    expect(() => transportOf({ send: undefined as never })).toThrow("the transport plug-in wild-1 cannot start");
    expect(() => transportOf({ schemes: "wild" as never })).toThrow("the transport plug-in wild-1 cannot start");
  });
});

describe("a source that", () => {
  it("never stops is waited for as long as the stop may take; what it hands in then is refused", async () => {
    const { walls, clock, log } = surroundings();
    let handIn: ((request: never) => Promise<unknown>) | undefined;
    const accepted: unknown[] = [];
    const port = idleSource({ stop: never, start: (accept) => void (handIn = accept) });
    const source = containSource(port, plugin("source"), walls);
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

  it("hands in under no name that metrics can carry does so under its own, which is a fault", async () => {
    const { walls, incidents } = surroundings();
    let handIn: ((request: never) => Promise<unknown>) | undefined;
    const names: unknown[] = [];
    const source = containSource(idleSource({ start: (accept) => void (handIn = accept) }), plugin("source"), walls);
    await source.start(async ({ source: name }) => (names.push(name), []), { durability: "fsync" });
    for (const name of ["other", "a b\n", "", undefined, 7])
      await handIn?.({ publications: [], source: name } as never);
    expect(names).toEqual(["other", "wild-1", "wild-1", "wild-1", "wild-1"]);
    expect(incidents.recent().get("source:wild-1")).toContain("accept: ");
  });

  it("fails to stop is noted, and its stop is over", async () => {
    const { walls, log } = surroundings();
    const port = idleSource({ stop: () => Promise.reject(new Error("broken")) });
    await containSource(port, plugin("source"), walls).stop(1_000);
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
    return { ...around, auth: containAuth(port, plugin("auth"), around.walls) };
  };
  const ask = {} as never;

  it("throws, hangs or answers with nonsense lets nobody in", async () => {
    const throwing = authOf({
      authenticate() {
        throw new Error("broken");
      },
    });
    expect(await throwing.auth.authenticate(ask)).toHaveProperty("refused");
    const hanging = authOf({ authenticate: never });
    const asked = hanging.auth.authenticate(ask);
    await hanging.clock.advance(20_000);
    expect(await asked).toHaveProperty("refused");
    for (const answer of [
      undefined,
      {},
      { sub: "a" },
      { sub: "a", keys: "all", amr: [], expiresAt: 1 },
      { sub: "", keys: "*", amr: [], expiresAt: 1 },
    ]) {
      const { auth, log } = authOf({ authenticate: async () => answer as never });
      expect(await auth.authenticate(ask)).toHaveProperty("refused");
      expect(log.lines[0]?.fields).toMatchObject({ plugin: "wild-1", action: "authenticate" });
    }
    const good = { sub: "a", keys: ["key_1"], amr: [], expiresAt: 1 };
    expect(await authOf({ authenticate: async () => good }).auth.authenticate(ask)).toEqual(good);
  });

  it("cannot read the relay's storage says so: that is no refusal of the token, and no fault of the plug-in", async () => {
    const down = new StorageError("unavailable", "down");
    for (const authenticate of [
      () => Promise.reject(down),
      () => {
        throw down;
      },
    ]) {
      const { auth, log } = authOf({ authenticate });
      await expect(auth.authenticate(ask)).rejects.toBe(down);
      expect(log.lines).toEqual([]);
    }
  });

  it("throws when it is asked whether it is ready is not ready", () => {
    const { auth } = authOf({
      ready() {
        throw new Error("broken");
      },
    });
    expect(auth.ready()).toBe(false);
  });
});

describe("a route that", () => {
  it("throws or hangs is answered with an error, under the plug-in's name", async () => {
    const { walls, clock, log } = surroundings();
    const wall = wallOf(plugin("source"), walls);
    const route = (handle: () => Promise<never>) =>
      containRoutes([{ method: "GET", path: "/wild", handle }], wall)[0]?.handle({} as never, undefined);
    await expect(
      route(() => {
        throw new Error("broken");
      }),
    ).rejects.toThrow("broken");
    const hanging = expect(route(never)).rejects.toMatchObject({ code: "INTERNAL_ERROR" });
    await clock.advance(130_000);
    await hanging;
    expect(log.lines[0]?.fields).toMatchObject({ action: "GET /wild", error: "Error: broken" });
  });

  it("keeps everything that it says of itself, its shortest way through the server among it", () => {
    const { walls } = surroundings();
    const handle = () => Promise.resolve({ status: 200, headers: {}, body: "" });
    const describe = { summary: "x", tag: "x", answers: [] };
    const route = {
      method: "POST",
      path: "/wild",
      limit: "POST /wild",
      direct: true,
      describe,
    } as const;
    const [contained] = containRoutes([{ ...route, handle }], wallOf(plugin("source"), walls));
    expect(contained).toMatchObject(route);
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
    const evil = {
      toString() {
        throw new Error("evil");
      },
    };
    for (const thrown of [undefined, null, Symbol("x"), evil, Object.create(null)]) {
      incidents.note({ kind: "source", name: String(log.lines.length) }, "x", thrown);
    }
    expect(log.lines).toHaveLength(5);
  });
});
