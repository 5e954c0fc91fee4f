// Things of somebody else look exactly like things that do not exist, in bodies, headers and time.
import { describe, expect, it, vi } from "vitest";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, type Answered } from "../support/relay.ts";

const receiver = kept(await startReceiver({ otherwise: 500 }));
const relay = kept(await startRelay({ retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 } }));
const mine = await relay.token({ sub: "me", keys: ["key_mine", "key_mine_2"], mfa: true });

/** A subscription, and an event that has failed there. */
async function made(keyId: string): Promise<Record<"sub" | "event", string>> {
  const { id: sub } = await relay.subscribe(receiver.url(), {}, keyId);
  const events = (await relay.publish([1, 2, 3].map((data) => ({ type: "a:b", keyId, data })))).json.data;
  const event = events[0].id as string;
  await vi.waitFor(async () => expect((await relay.event(event, keyId)).status).toBe("failed"));
  return { sub, event };
}
const own = await made("key_mine");
const there = await made("key_theirs");
const list = await relay.call("GET", "/api-keys/key_theirs/events?limit=1");
const theirs = { ...there, cursor: list.json.meta.nextCursor as string };

interface Operation {
  readonly method: string;
  readonly tail: string;
  readonly body?: unknown;
}
const OPERATIONS: readonly Operation[] = [
  { method: "GET", tail: "/webhooks" },
  { method: "POST", tail: "/webhooks", body: { url: "https://hooks.example.com/", events: ["*"] } },
  { method: "GET", tail: "/webhooks/{sub}" },
  { method: "PATCH", tail: "/webhooks/{sub}", body: { status: "disabled" } },
  { method: "DELETE", tail: "/webhooks/{sub}" },
  { method: "POST", tail: "/webhooks/{sub}/rotate-secret" },
  { method: "POST", tail: "/webhooks/{sub}/test" },
  { method: "GET", tail: "/webhooks/{sub}/deliveries" },
  { method: "POST", tail: "/webhooks/{sub}/replay", body: {} },
  { method: "GET", tail: "/events" },
  { method: "GET", tail: "/events/{event}" },
  { method: "POST", tail: "/events/{event}/replay", body: {} },
  { method: "POST", tail: "/replay", body: {} },
  { method: "GET", tail: "/stats" },
  { method: "GET", tail: "/stream" },
  { method: "GET", tail: "/audit" },
];
const VARIABLE = new Set(["date", "x-request-id"]);

/** All of an answer that a client can compare. */
function look({ status, headers, text }: Answered): unknown {
  const rest = Object.entries(headers).filter(([name]) => !VARIABLE.has(name));
  return {
    status,
    headers: rest,
    text: text.replaceAll(/req_[0-9a-z]{26}/g, "req").replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "time"),
  };
}

function ask(
  method: string,
  keyId: string,
  tail: string,
  ids: Record<string, string>,
  body: unknown,
  token = mine,
): Promise<Answered> {
  const path = `/api-keys/${keyId}${tail.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? "")}`;
  return relay.call(method, path, { token, ...(body === undefined ? {} : { body }) });
}

const NOBODYS = { sub: "sub_00000000000000000000000000", event: "evt_01k00000000000000000000000" };

describe("a key of somebody else", () => {
  it.each(OPERATIONS)("$method $tail looks like a key that nobody has", async ({ method, tail, body }) => {
    const foreign = await ask(method, "key_theirs", tail, theirs, body);
    const unknown = await ask(method, "key_nobody", tail, NOBODYS, body);
    expect(foreign.status).toBe(404);
    expect(look(foreign)).toEqual(look(unknown));
  });

  it.each(OPERATIONS)(
    "$method $tail does, whatever else is wrong and whatever the token lacks",
    async ({ method, tail }) => {
      const weak = await relay.token({ sub: "weak", keys: ["key_mine"] });
      for (const body of [{ surprise: 1 }, "{", undefined]) {
        const foreign = await ask(method, "key_theirs", tail, theirs, body, weak);
        const unknown = await ask(method, "key_nobody", tail, NOBODYS, body, weak);
        expect(look(foreign)).toEqual(look(unknown));
      }
    },
  );
});

describe("a subscription or an event of somebody else", () => {
  it.each(OPERATIONS.filter(({ tail }) => tail.includes("{")))(
    "$method $tail under a key of one's own looks like one that never was",
    async ({ method, tail, body }) => {
      const foreign = await ask(method, "key_mine", tail, theirs, body);
      const other = await ask(method, "key_mine_2", tail, own, body);
      const unknown = await ask(method, "key_mine", tail, NOBODYS, body);
      expect(foreign.status).toBe(404);
      expect([look(foreign), look(other)]).toEqual([look(unknown), look(unknown)]);
    },
  );

  it("is not told by a replay that names it, nor by a filter, a figure or a cursor", async () => {
    const named = async (subscriptionId: string): Promise<unknown> =>
      look(await ask("POST", "key_mine", "/events/{event}/replay", own, { subscriptionId }));
    expect(await named(theirs.sub)).toEqual(await named(NOBODYS.sub));
    const listed = async (id: string): Promise<unknown> =>
      look(await ask("GET", "key_mine", `/events?subscriptionId=${id}`, {}, undefined));
    expect(await listed(theirs.sub)).toEqual(await listed(NOBODYS.sub));
    const figures = async (id: string): Promise<string> =>
      JSON.stringify(look(await ask("GET", "key_mine", `/stats?subscriptionId=${id}`, {}, undefined)));
    expect(await figures(theirs.sub)).toBe(await figures(NOBODYS.sub));
    const paged = async (cursor: string): Promise<Answered> =>
      ask("GET", "key_mine", `/events?limit=1&cursor=${encodeURIComponent(cursor)}`, {}, undefined);
    expect(look(await paged(theirs.cursor))).toEqual(look(await paged("nonsense")));
    expect((await paged(theirs.cursor)).status).toBe(400);
  });

  it("is still there afterwards, untouched", async () => {
    const { json } = await relay.call("GET", `/api-keys/key_theirs/webhooks/${theirs.sub}`);
    expect(json.data).toMatchObject({ id: theirs.sub, status: "active" });
    const { json: shown } = await relay.call("GET", `/api-keys/key_theirs/events/${theirs.event}`);
    expect(shown.data.deliveries).toMatchObject([{ cycle: 0, status: "failed" }]);
    const audit = await relay.call("GET", "/api-keys/key_theirs/audit");
    expect(audit.json.data.map(({ action }: { action: string }) => action)).toEqual(["subscription.created"]);
  });
});

describe("time", () => {
  it("tells foreign and unknown ids apart no better than chance", async () => {
    const took = { foreign: [] as number[], unknown: [] as number[] };
    const clock = async (ids: Record<"sub" | "event" | "key", string>, tail: string): Promise<number> => {
      const began = performance.now();
      await ask("GET", ids.key, tail, ids, undefined);
      return performance.now() - began;
    };
    const foreign = { ...theirs, key: "key_theirs" };
    const unknown = { ...NOBODYS, key: "key_nobody" };
    for (let i = 0; i < 400; i++) {
      for (const [name, ids] of i % 2
        ? ([
            ["foreign", foreign],
            ["unknown", unknown],
          ] as const)
        : ([
            ["unknown", unknown],
            ["foreign", foreign],
          ] as const))
        took[name].push(await clock(ids, "/webhooks/{sub}"));
    }
    const middle = (all: number[]): number => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] as number;
    const [a, b] = [middle(took.foreign), middle(took.unknown)];
    expect(Math.abs(a - b) / Math.max(a, b)).toBeLessThan(0.3);
  });
});
