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

const PER_SECOND = 500;
/** How long is published: both restarts lie within it. */
const LOAD_MS = 6_000;

it("a rolling restart at 500 events/s loses and duplicates nothing", { timeout: 240_000 }, async ({ skip }) => {
  skip(missing !== undefined, missing);
  await using redis = await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
  await using receiver = await startReceiver({ keepAliveMs: 60_000 });
  const start = (name: string): Promise<ChildRelay> =>
    startChild(mkdtempSync(join(base, `${name}-`)), {
      imports: ["redis"],
      // Attempts under way have time to end on a busy machine too: one that is given up is sent again.
      config: `server: { port: 0, shutdownMs: 60_000 }, storage: redis({ url: "${redis.url}" }),`,
    });
  const nodes = await Promise.all([start("a"), start("b")]);
  try {
    const made = await nodes[0]?.call("POST", "/api-keys/key_1/webhooks", { url: receiver.url(), events: ["*"] });
    expect(made?.status).toBe(201);

    let stuck = 0;
    const accepted = new Set<string>();
    /** Publishes until one of the nodes has it, as a client behind a load balancer would. */
    const publish = async (i: number): Promise<void> => {
      const id = `e${i}`;
      for (let tries = 0; tries < 200; tries++) {
        const node = nodes[(i + tries) % nodes.length] as ChildRelay;
        const answer = await node.publish({ type: "a:b", keyId: "key_1", data: i, id }).catch(() => undefined);
        if (answer?.status === 202) return void accepted.add(id);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      stuck++;
    };
    const from = performance.now();
    const published: Promise<void>[] = [];
    const load = (async () => {
      for (let i = 0; performance.now() - from < LOAD_MS;) {
        for (; i < ((performance.now() - from) * PER_SECOND) / 1_000; i++) published.push(publish(i));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();
    for (const i of [0, 1]) {
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      const old = nodes[i] as ChildRelay;
      old.running.kill("SIGTERM");
      expect((await old.running.ended).code).toBe(0);
      expect(old.running.stderr()).not.toContain("did not stop well");
      nodes[i] = await start(i === 0 ? "a" : "b");
    }
    await load;
    await Promise.all(published);
    expect(stuck).toBe(0);
    expect(accepted.size).toBeGreaterThan((LOAD_MS / 1_000) * PER_SECOND * 0.9);

    const counts = (): Map<string, number> => {
      const found = new Map<string, number>();
      for (const { headers } of receiver.requests) {
        const id = String(headers["webhook-id"]);
        found.set(id, (found.get(id) ?? 0) + 1);
      }
      return found;
    };
    // Everything arrives; a lease that lapsed would take its time, and this is far shorter than that.
    const until = performance.now() + 15_000;
    while (counts().size < accepted.size && performance.now() < until) await new Promise((r) => setTimeout(r, 50));
    const found = counts();
    expect([...accepted].filter((id) => !found.has(id))).toEqual([]);
    expect([...found].filter(([, times]) => times > 1)).toEqual([]);
  } finally {
    for (const node of nodes) await node[Symbol.asyncDispose]();
  }
});
