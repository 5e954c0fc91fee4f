// A node that stands still for longer than its leases are: an operator's SIGSTOP, a machine that was suspended.
import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import type { ChildRelay } from "../support/child-relay.ts";
import type { RedisServer } from "../support/redis.ts";
import { needs } from "../support/needs.ts";
import { errorsBesideLateCalls, startNodes } from "../support/nodes.ts";
import { startReceiver } from "../support/receiver.ts";
import { eventually } from "../support/until.ts";

const missing = needs("redis");
/** Shorter than the one it comes with, 45 s; the clocks are those of two processes and of Redis. */
const LEASE_MS = 8_000;
const STOPPED_MS = 12_000;
/** Deliveries of one subscription that each node has under way at most. */
const UNDER_WAY = 4;

async function publish(node: ChildRelay, key: string, count: number, head: string): Promise<readonly number[]> {
  const events = Array.from({ length: count }, (_, i) => ({ type: "a:b", keyId: key, data: i, id: `${head}:${i}` }));
  const told = await node.publish(events);
  expect(told.status).toBe(202);
  return told.json.data.map(({ deliveries }: { deliveries: number }) => deliveries);
}

/** All that is known of the events of a key. */
async function known(node: ChildRelay, key: string): Promise<readonly Shown[]> {
  const page = await node.call("GET", `/api-keys/${key}/events?limit=200`);
  const ids = (page.json.data as { id: string }[]).map(({ id }) => id);
  return Promise.all(ids.map(async (id) => (await node.call("GET", `/api-keys/${key}/events/${id}`)).json.data));
}
interface Shown {
  readonly id: string;
  readonly status: string;
  readonly deliveries: readonly { readonly attempts: readonly { number: number; statusCode?: number }[] }[];
}

describe.skipIf(missing !== undefined)(
  `a node of two, stopped for longer than its leases${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    it("loses nothing, repeats only what it held, and is refused what it would write of that", async () => {
      const go = Promise.withResolvers<200>();
      await using receiver = await startReceiver({ script: () => go.promise });
      await using nodes = await startNodes({ leaseMs: LEASE_MS });
      const [a, b] = nodes.all as [ChildRelay, ChildRelay];
      const { id: sub } = await a.subscribe(receiver.url("/first"), {}, "key_1");
      // It knows of nobody who wants these.
      expect(await publish(b, "key_2", 1, "early")).toEqual([0]);
      const publishedAt = performance.now();
      await publish(b, "key_1", 60, "before");
      await receiver.waitFor(2 * UNDER_WAY);

      b.running.kill("SIGSTOP");
      const stoppedAt = performance.now();
      const leases = await nodes.redis.command("HVALS", `{relay}:q:l:${sub}`);
      go.resolve(200);
      await publish(a, "key_1", 20, "meanwhile");
      await a.subscribe(receiver.url("/second"), {}, "key_2");
      await eventually("the other one has done its part", async () => {
        const { waiting, leased } = await a.backlog();
        return waiting === 0 && leased === UNDER_WAY;
      });
      // Of the leases as they were, those that are left are those of the one that stands still.
      const left = await nodes.redis.command("HVALS", `{relay}:q:l:${sub}`);
      const tokens = tokensIn(left);
      expect(tokens).toHaveLength(UNDER_WAY);
      expect(tokensIn(leases)).toEqual(expect.arrayContaining([...tokens]));
      const ordinals = new Set([...left.matchAll(/ \d{13}:(\w+)/g)].map(([, ordinal]) => ordinal as string));

      await eventually(
        "all is delivered without it",
        async () => (await a.call("GET", "/api-keys/key_1/events?status=delivered&limit=200")).json.data.length === 80,
        120_000,
      );
      const tookOverMs = performance.now() - publishedAt;
      await new Promise((resolve) => setTimeout(resolve, stoppedAt + STOPPED_MS - performance.now()));
      const before = await known(a, "key_1");
      const sent = receiver.requests.length;
      using told = await monitor(nodes.redis);
      // Asked while it stands still, answered when it goes on.
      const late = publish(b, "key_2", 1, "late");
      b.running.kill("SIGCONT");

      expect(await late).toEqual([1]);
      const settled = (): ReadonlySet<string> => new Set(told.lines().flatMap(settledIn));
      await eventually("it has tried to write of all that it held", () => tokens.every((one) => settled().has(one)));
      await b.idle();
      expect(await known(b, "key_1")).toEqual(before);
      for (const { status, deliveries } of before) {
        expect(status).toBe("delivered");
        expect(deliveries.map(({ attempts }) => attempts)).toMatchObject([[{ number: 1, statusCode: 200 }]]);
      }
      // Taken over when its leases had lapsed, not before.
      expect(tookOverMs).toBeGreaterThan(LEASE_MS);
      expect(receiver.requests).toHaveLength(sent + 1);
      const times = new Map<string, number>();
      for (const { headers } of receiver.requests) {
        const id = String(headers["webhook-id"]);
        times.set(id, (times.get(id) ?? 0) + 1);
      }
      const again = [...times].filter(([, count]) => count > 1);
      expect(again.every(([, count]) => count === 2)).toBe(true);
      expect(again).toHaveLength(ordinals.size);
      expect(times.size).toBe(81);
      expect(errorsBesideLateCalls(b)).toEqual([]);
    }, 240_000);
  },
);

/** Of lease entries, each a token and a line. */
const tokensIn = (reply: string): readonly string[] =>
  [...reply.matchAll(/^(\S+) \d{13}:/gm)].map(([, token]) => token as string);

/** Tokens of the leases that a call wants to settle: length, id, set, message, sub, ordinal, token. */
const settledIn = (line: string): readonly string[] =>
  [...line.matchAll(/"settle" "\d+" "[^"]*" "[^"]*" "" "[^"]*" "[^"]*" "([^"]*)"/g)].map(
    ([, token]) => token as string,
  );

/** Every command that a Redis is given, as it tells it. */
interface Monitor extends Disposable {
  /** One a command: time, who asked, and its parts in quotes. */
  lines(): readonly string[];
}

async function monitor(server: RedisServer): Promise<Monitor> {
  const socket = connect(server.port, "127.0.0.1");
  let text = "";
  socket.setEncoding("latin1").on("error", () => {});
  socket.write("MONITOR\r\n");
  await once(socket, "data");
  socket.on("data", (part: string) => (text += part));
  return {
    lines: () => text.split("\r\n"),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}
