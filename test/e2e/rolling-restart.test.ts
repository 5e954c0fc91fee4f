// Two nodes on one Redis are restarted one after the other under load: nothing is lost, nothing is delivered twice.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRedis } from "../support/redis.ts";

const missing = needs("redis");
const base = mkdtempSync(join(tmpdir(), "relay-rolling-"));
afterAll(() => rmSync(base, { recursive: true }));

const PER_SECOND = 200;
/** How many publications wait for their answer at most: a busy machine is not asked for more than it does. */
const AT_ONCE = 40;
/** How long is published before, between and after the restarts. */
const PAUSE_MS = 500;

it("a rolling restart under load loses and duplicates nothing", { timeout: 240_000 }, async ({ skip }) => {
  skip(missing !== undefined, missing);
  await using redis = await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
  await using receiver = await startReceiver({
    keepAliveMs: 60_000,
    // So that some attempts are under way at each moment.
    otherwise: { do: "reply", delayMs: 50 },
  });
  const start = (name: string): Promise<ChildRelay> =>
    startChild(mkdtempSync(join(base, `${name}-`)), {
      imports: ["redis"],
      // Attempts under way have time to end on a busy machine too: one that is given up is sent again.
      config: `server: { port: 0, shutdownMs: 60_000 }, delivery: { timeoutMs: 30_000 }, storage: redis({ url: "${redis.url}", leaseMs: 600_000 }),`,
    });
  const nodes = await Promise.all([start("a"), start("b")]);
  try {
    await nodes[0]?.subscribe(receiver.url());
    let stuck = 0;
    let answered = 0;
    const accepted = new Set<string>();
    /** Publishes until one of the nodes has it, as a client behind a load balancer would. */
    const publish = async (i: number): Promise<void> => {
      const id = `e${i}`;
      for (let tries = 0; tries < 200 && !accepted.has(id); tries++) {
        if (tries > 0) await new Promise((resolve) => setTimeout(resolve, 20));
        const node = nodes[(i + tries) % nodes.length] as ChildRelay;
        const answer = await node.publish({ type: "a:b", keyId: "key_1", data: i, id }).catch(() => undefined);
        if (answer?.status === 202) accepted.add(id);
      }
      if (!accepted.has(id)) stuck++;
      answered++;
    };
    const from = performance.now();
    const published: Promise<void>[] = [];
    let restarted = false;
    const load = (async () => {
      while (!restarted) {
        const due = ((performance.now() - from) * PER_SECOND) / 1_000;
        for (let i = published.length; i < due && i < answered + AT_ONCE; i++) published.push(publish(i));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();
    const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    for (const i of [0, 1]) {
      await pause();
      const old = nodes[i] as ChildRelay;
      old.running.kill("SIGTERM");
      expect((await old.running.ended).code).toBe(0);
      expect(old.running.stderr()).not.toContain("did not stop well");
      nodes[i] = await start(i === 0 ? "a" : "b");
    }
    await pause();
    restarted = true;
    await load;
    await Promise.all(published);
    expect(stuck).toBe(0);
    expect(accepted.size).toBe(published.length);

    const counts = (): Map<string, number> => {
      const found = new Map<string, number>();
      for (const { headers } of receiver.requests) {
        const id = String(headers["webhook-id"]);
        found.set(id, (found.get(id) ?? 0) + 1);
      }
      return found;
    };
    // Everything arrives, long before a lease that nobody gave back would lapse.
    const until = performance.now() + 60_000;
    while (counts().size < accepted.size && performance.now() < until) await new Promise((r) => setTimeout(r, 50));
    const found = counts();
    expect([...accepted].filter((id) => !found.has(id))).toEqual([]);
    expect([...found].filter(([, times]) => times > 1)).toEqual([]);
  } finally {
    for (const node of nodes) await node[Symbol.asyncDispose]();
  }
});
