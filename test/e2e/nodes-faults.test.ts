// A node that is killed, stopped or cut off from Redis loses nothing, repeats little, and holds up nobody for longer than its leases.
import { describe, expect, it } from "vitest";
import type { ChildRelay } from "../support/child-relay.ts";
import { needs } from "../support/needs.ts";
import { startNodes } from "../support/nodes.ts";
import { startReceiver, type Received } from "../support/receiver.ts";
import { tcpShim, type TcpShim } from "../support/tcp-shim.ts";
import { eventually } from "../support/until.ts";

const missing = needs("redis");
const LEASE_MS = 2_000;
/** Fewer than a lease: no attempt outlasts it. */
const TIMEOUT_MS = 1_200;
/** Time-outs here are the test's doing: no circuit breaker rests for a minute because of them. */
const CONFIG = `health: { breakerAfter: 1000000 }, delivery: { timeoutMs: ${TIMEOUT_MS} }, retry: { attempts: 5, firstDelayMs: 300, factor: 1, maxDelayMs: 300 },`;
/** Deliveries of one subscription that each node has under way at most. */
const UNDER_WAY = 16;

const events = (count: number, head: string): readonly { readonly id: string }[] =>
  Array.from({ length: count }, (_, i) => ({ type: "a:b", keyId: "key_1", data: i, id: `${head}:${i}` }));

async function publish(node: ChildRelay, count: number, head = "e"): Promise<void> {
  expect((await node.publish(events(count, head))).status).toBe(202);
}

interface Shown {
  readonly status: string;
  readonly deliveries: readonly {
    readonly status: string;
    readonly attempts: readonly { readonly number: number; readonly statusCode?: number; readonly error?: string }[];
  }[];
}

async function shown(node: ChildRelay, id: string): Promise<Shown> {
  return (await node.event(id)) as Shown;
}

const delivered = (node: ChildRelay, count: number, withinMs: number): Promise<void> =>
  eventually(
    `${count} delivered`,
    async () => {
      const page = await node.call("GET", "/api-keys/key_1/events?status=delivered&limit=200");
      return page.json.data.length === count;
    },
    withinMs,
  );

const attemptOf = ({ headers }: Received): string => `${headers["webhook-id"]} ${headers["x-relay-attempt"]}`;

/** Attempts that were on the wire more than once, with how often. */
function repeated(requests: readonly Received[]): readonly number[] {
  const times = new Map<string, number>();
  for (const one of requests) times.set(attemptOf(one), (times.get(attemptOf(one)) ?? 0) + 1);
  return [...times.values()].filter((count) => count > 1);
}

/** Each delivery has ended once; its attempts are numbered without a gap, and only the last succeeded. */
async function holdsTogether(node: ChildRelay, count: number, head = "e"): Promise<void> {
  for (let i = 0; i < count; i++) {
    const { status, deliveries } = await shown(node, `${head}:${i}`);
    expect(status).toBe("delivered");
    const attempts = deliveries[0]?.attempts ?? [];
    expect(attempts.map(({ number }) => number)).toEqual(attempts.map((_, at) => at + 1));
    expect(attempts.filter(({ statusCode }) => statusCode === 200)).toEqual([attempts.at(-1)]);
  }
}

describe.skipIf(missing !== undefined)(`a node of two${missing === undefined ? "" : ` (${missing})`}`, () => {
  it("killed with attempts on the wire: the other one makes them again under their numbers, once", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    await using nodes = await startNodes({ config: CONFIG, leaseMs: LEASE_MS });
    const [a, b] = nodes.all as [ChildRelay, ChildRelay];
    await a.subscribe(receiver.url());
    await publish(a, 60);
    await receiver.waitFor(2 * UNDER_WAY);
    receiver.answer([], 200);
    await b.kill();
    await delivered(a, 60, 60_000);
    await holdsTogether(a, 60);
    const again = repeated(receiver.requests);
    expect(again.every((times) => times === 2)).toBe(true);
    expect(again.length).toBeLessThanOrEqual(UNDER_WAY);
    expect(again.length).toBeGreaterThan(0);
  });

  it("cut off from Redis: its publishers are told so, nothing is lost, and it comes back by itself", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "reply", delayMs: 20 } });
    let shim: TcpShim | undefined;
    await using nodes = await startNodes({
      config: CONFIG,
      leaseMs: LEASE_MS,
      urls: async ({ port, url }) => {
        shim = await tcpShim(port);
        return [url, url.replace(String(port), String(shim.port))];
      },
    });
    await using cut = shim as TcpShim;
    const [a, b] = nodes.all as [ChildRelay, ChildRelay];
    await a.subscribe(receiver.url());
    await publish(a, 50, "a");
    await publish(b, 50, "b");
    cut.swallow();
    for (const head of ["lost", "gone"]) {
      const from = performance.now();
      const told = await b.publish(events(1, head));
      const tookMs = performance.now() - from;
      expect([told.status, told.json.code]).toEqual([503, "STORAGE_UNAVAILABLE"]);
      // In two seconds on a machine that keeps up: how long one call may take is a law of the storage.
      expect(tookMs).toBeLessThan(30_000);
    }
    const ready = await b.call("GET", "/readyz");
    expect(ready.status).toBe(503);
    await publish(a, 20, "more");
    await delivered(a, 120, 60_000);
    cut.pass();
    await eventually("it takes events again", async () => (await b.publish(events(1, "back"))).status === 202, 60_000);
    // Events that it could not acknowledge may have been stored, and are then delivered: never half of them.
    await b.idle();
    for (const [head, count] of [
      ["a", 50],
      ["b", 50],
      ["more", 20],
      ["back", 1],
    ] as const) {
      await holdsTogether(b, count, head);
    }
    expect(repeated(receiver.requests).length).toBeLessThanOrEqual(UNDER_WAY);
  });
});
