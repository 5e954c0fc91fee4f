// A change made on one node holds on all of them once it is answered: seen at once, and nothing of what was before goes on.
import { beforeAll, afterAll, describe, expect, it } from "vitest";
import { verifyHex } from "../../core/signing/verify.ts";
import type { ChildRelay } from "../support/child-relay.ts";
import { needs } from "../support/needs.ts";
import { startNodes, type Nodes } from "../support/nodes.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { eventually } from "../support/until.ts";

const missing = needs("redis");
/** Attempts that a node makes at once of a subscription which has not answered yet. */
const TRIAL = 4;
const HOOKS = (key: string): string => `/api-keys/${key}/webhooks`;

async function publish(node: ChildRelay, key: string, count: number): Promise<readonly { deliveries: number }[]> {
  const events = Array.from({ length: count }, (_, i) => ({ type: "a:b", keyId: key, data: i }));
  const told = await node.publish(events);
  expect(told.status).toBe(202);
  return told.json.data;
}

/** How many deliveries of a subscription each node has under way. */
const underWay = async (node: ChildRelay): Promise<number> => (await node.backlog()).underWay;

describe.skipIf(missing !== undefined)(`changes over two nodes${missing === undefined ? "" : ` (${missing})`}`, () => {
  let nodes: Nodes;
  let a: ChildRelay;
  let b: ChildRelay;
  const idle = (): Promise<void> =>
    eventually("all have ended", async () => (await underWay(a)) + (await underWay(b)) === 0);
  /** Takes everything, to the end: nothing is left to be tried again. */
  let calm: Receiver;
  beforeAll(async () => {
    calm = await startReceiver();
    nodes = await startNodes({ count: 2 });
    [a, b] = nodes.all as [ChildRelay, ChildRelay];
  });
  afterAll(async () => {
    await nodes?.[Symbol.asyncDispose]();
    await calm?.close();
  });

  it("a new subscription matches the very next event on the other node, fifty times", async () => {
    for (let i = 0; i < 50; i++) {
      const [here, there] = i % 2 === 0 ? [a, b] : [b, a];
      const key = `key_new_${i % 5}`;
      const before = (await publish(there, key, 1))[0]?.deliveries as number;
      await here.subscribe(calm.url(), {}, key);
      expect((await publish(there, key, 1))[0]?.deliveries).toBe(before + 1);
    }
  });

  it("a disabled, a re-pointed, a re-named and a deleted one are no more on the other node, at once", async () => {
    for (let i = 0; i < 10; i++) {
      const [here, there] = i % 2 === 0 ? [a, b] : [b, a];
      const key = `key_change_${i}`;
      const { id } = await here.subscribe(calm.url(`/old/${i}`), {}, key);
      await publish(there, key, 1);
      await eventually("the first arrives", () => calm.requests.some(({ path }) => path === `/old/${i}`));

      expect((await here.call("PATCH", `${HOOKS(key)}/${id}`, { url: calm.url(`/new/${i}`) })).status).toBe(200);
      await publish(there, key, 1);
      await eventually("the next goes there", () => calm.requests.some(({ path }) => path === `/new/${i}`));
      expect(calm.requests.filter(({ path }) => path === `/old/${i}`)).toHaveLength(1);

      expect((await here.call("PATCH", `${HOOKS(key)}/${id}`, { events: ["other:name"] })).status).toBe(200);
      expect((await publish(there, key, 1))[0]?.deliveries).toBe(0);
      expect((await here.call("DELETE", `${HOOKS(key)}/${id}`)).status).toBe(204);
      expect((await there.call("GET", `${HOOKS(key)}/${id}`)).status).toBe(404);
      expect((await publish(there, key, 1))[0]?.deliveries).toBe(0);
    }
  });

  it("after a rotation's answer everything that any node sends is signed with the new secret", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "reply", delayMs: 30 } });
    const { id } = await a.subscribe(receiver.url(), {}, "key_rotate");
    await publish(b, "key_rotate", 400);
    await receiver.waitFor(60);
    const rotated = await a.call("POST", `${HOOKS("key_rotate")}/${id}/rotate-secret`, {});
    expect(rotated.status).toBe(200);
    const before = receiver.requests.length;
    await receiver.waitFor(400, 60_000);
    await idle();
    const newer = receiver.requests.slice(before);
    expect(newer.filter(({ headers, body }) => !verifyHex(body, headers, rotated.json.data.secret))).toEqual([]);
  });

  it("after a disable's answer no node starts an attempt, and those in flight end", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "reply", delayMs: 100 } });
    const { id } = await a.subscribe(receiver.url(), {}, "key_off");
    await publish(a, "key_off", 300);
    await publish(b, "key_off", 300);
    await receiver.waitFor(100);
    await eventually("both have some", async () => (await underWay(a)) > 0 && (await underWay(b)) > 0);
    expect((await a.call("PATCH", `${HOOKS("key_off")}/${id}`, { status: "disabled" })).status).toBe(200);
    const answeredAt = Date.now();
    await idle();
    const late = receiver.requests.filter(({ headers }) => Number(headers["webhook-timestamp"]) * 1_000 > answeredAt);
    expect(late).toEqual([]);
    expect(receiver.requests.length).toBeLessThan(600);
    const attempted = new Set(receiver.requests.map(({ headers }) => headers["webhook-id"]));
    expect(attempted.size).toBe(receiver.requests.length);
    const list = await b.call("GET", `${HOOKS("key_off")}/${id}/deliveries?status=delivered&limit=200`);
    const started = (list.json.data as { attempts: { startedAt: string }[] }[]).flatMap(({ attempts }) =>
      attempts.map(({ startedAt }) => Date.parse(startedAt)),
    );
    expect(started.length).toBeGreaterThan(0);
    expect(started.filter((at) => at > answeredAt)).toEqual([]);
  });

  it("after a deletion's answer nothing of it is on the wire from any node, and nothing more is sent", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    const { id } = await a.subscribe(receiver.url(), {}, "key_gone");
    await publish(a, "key_gone", 100);
    await publish(b, "key_gone", 100);
    await receiver.waitFor(2 * TRIAL);
    expect([await underWay(a), await underWay(b)]).toEqual([TRIAL, TRIAL]);
    const began = performance.now();
    expect((await a.call("DELETE", `${HOOKS("key_gone")}/${id}`)).status).toBe(204);
    const tookMs = performance.now() - began;
    expect([await underWay(a), await underWay(b)]).toEqual([0, 0]);
    await receiver.waitForAborted(2 * TRIAL, 60_000);
    // Less than it waits for nodes that do not answer.
    expect(tookMs).toBeLessThan(12_000);
    // Later events of either node arrive, and there is still nothing of what was deleted.
    receiver.answer([], 200);
    for (const node of [a, b]) {
      const path = `/after/${node === a ? "a" : "b"}`;
      const { id: other } = await node.subscribe(receiver.url(path), {}, "key_after");
      const pinged = await node.call("POST", `${HOOKS("key_after")}/${other}/test`);
      expect(pinged.json.data.statusCode).toBe(200);
    }
    expect(receiver.requests.filter(({ path }) => path === "/hook")).toHaveLength(2 * TRIAL);
    for (const node of [a, b]) {
      const shown = await node.call("GET", "/api-keys/key_gone/events?limit=200");
      expect(new Set(shown.json.data.map(({ status }: { status: string }) => status))).toEqual(new Set(["cancelled"]));
    }
  });

  it("a test event that another node has on the wire is ended by a deletion too", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    const { id } = await a.subscribe(receiver.url(), {}, "key_ping");
    const ping = b.call("POST", `${HOOKS("key_ping")}/${id}/test`);
    await receiver.waitFor(1);
    expect((await a.call("DELETE", `${HOOKS("key_ping")}/${id}`)).status).toBe(204);
    expect((await ping).status).toBe(404);
    await receiver.waitForAborted(1, 500);
  });

  it("re-enabling on one node ends what another one remembers of the receiver's wish for rest", async () => {
    const rest = { do: "reply", status: 503, headers: { "retry-after": "600" } } as const;
    await using receiver = await startReceiver({ otherwise: rest });
    const { id } = await a.subscribe(receiver.url(), {}, "key_rest");
    // Both nodes hear of it.
    for (let i = 0; i < 20; i++) await publish(i % 2 === 0 ? a : b, "key_rest", 2);
    await receiver.waitFor(1);
    receiver.answer([], 200);
    const set = async (status: string) => (await a.call("PATCH", `${HOOKS("key_rest")}/${id}`, { status })).status;
    expect(await set("disabled")).toBe(200);
    expect(await set("active")).toBe(200);
    const before = receiver.requests.length;
    await publish(a, "key_rest", 40);
    await publish(b, "key_rest", 40);
    await receiver.waitFor(before + 80);
    await idle();
  });
});

describe.skipIf(missing !== undefined)("a deletion while other nodes cannot answer", () => {
  it("waits for one that was killed and one that is stopped, never longer than 15 s, and those send nothing more", async () => {
    await using nodes = await startNodes({ count: 3 });
    const [a, killed, stopped] = nodes.all as [ChildRelay, ChildRelay, ChildRelay];
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    const { id } = await a.subscribe(receiver.url(), {}, "key_1");
    await publish(a, "key_1", 200);
    await receiver.waitFor(3 * TRIAL);
    const tookMs = async (act: () => Promise<unknown>): Promise<number> => {
      const from = performance.now();
      await act();
      return performance.now() - from;
    };
    // The same while every node answers shows how busy this machine is.
    const usualMs = await tookMs(() => a.subscribe(receiver.url("/other"), {}, "key_0"));
    await killed.kill();
    stopped.running.kill("SIGSTOP");
    const before = receiver.requests.length;
    // Others' changes wait only for as long as a node may act on what it knew before.
    expect(await tookMs(() => a.subscribe(receiver.url("/other"), {}, "key_2"))).toBeLessThan(13_000 + 5 * usualMs);
    const deletion = async () => expect((await a.call("DELETE", `${HOOKS("key_1")}/${id}`)).status).toBe(204);
    expect(await tookMs(deletion)).toBeLessThan(60_000);
    stopped.running.kill("SIGCONT");
    await eventually("the stopped one has let go", async () => (await underWay(stopped)) === 0, 60_000);
    // Then it is at work again, on what has come since: nothing of what was deleted lies before that.
    await publish(a, "key_2", 100);
    await eventually("it has begun something else", async () => (await underWay(stopped)) > 0);
    await eventually("that arrives", () => receiver.requests.filter(({ path }) => path === "/other").length > TRIAL);
    expect(receiver.requests.filter(({ path }) => path === "/hook")).toHaveLength(before);
    // Nobody waits for the dead any more.
    expect(await tookMs(() => a.subscribe(receiver.url("/other"), {}, "key_3"))).toBeLessThan(5_500 + 5 * usualMs);
  }, 240_000);
});
