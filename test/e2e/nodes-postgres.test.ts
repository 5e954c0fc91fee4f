// Two nodes with one config on one PostgreSQL are one relay; one that dies, or a server that does, loses nothing.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { needs } from "../support/needs.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { startReceiver } from "../support/receiver.ts";
import { eventually } from "../support/until.ts";

const missing = needs("postgres");
const CONFIG = `health: { breakerAfter: 1000000 }, delivery: { timeoutMs: 5000 }, retry: { attempts: 5, firstDelayMs: 300, factor: 1, maxDelayMs: 300 },`;

interface Nodes extends AsyncDisposable {
  readonly server: PostgresServer;
  readonly all: readonly [ChildRelay, ChildRelay];
}

async function startNodes(config = CONFIG): Promise<Nodes> {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startPostgres());
  const start = async (): Promise<ChildRelay> => {
    const folder = mkdtempSync(join(tmpdir(), "relay-node-"));
    stack.defer(() => rmSync(folder, { recursive: true, force: true }));
    const options = { imports: ["postgres"], config: `storage: postgres({ url: "${server.url}" }), ${config}` };
    return stack.use(await startChild(folder, options));
  };
  const all = await Promise.all([start(), start()]);
  return { server, all, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const events = (count: number, head: string): readonly { readonly id: string }[] =>
  Array.from({ length: count }, (_, i) => ({ type: "a:b", keyId: "key_1", data: i, id: `${head}:${i}` }));

async function publish(node: ChildRelay, count: number, head: string): Promise<void> {
  expect((await node.publish(events(count, head))).status).toBe(202);
}

const delivered = (node: ChildRelay, count: number, withinMs: number): Promise<void> =>
  eventually(
    `${count} delivered`,
    async () =>
      (await node.call("GET", "/api-keys/key_1/events?status=delivered&limit=200")).json.data.length === count,
    withinMs,
  );

describe.skipIf(missing !== undefined)(
  `two nodes on one PostgreSQL${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    it("know each other's subscriptions at once, and deliver each event once", async () => {
      await using receiver = await startReceiver();
      await using nodes = await startNodes();
      const [a, b] = nodes.all;
      await a.subscribe(receiver.url());
      await Promise.all([publish(a, 50, "a"), publish(b, 50, "b")]);
      await delivered(b, 100, 20_000);
      expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(100);
      expect(receiver.requests).toHaveLength(100);
      const { json } = await b.call("GET", "/relay/status");
      expect(json.data.storage).toMatchObject({ name: "postgres", nodes: 2, listening: true });
    });

    it("give what one cannot take to the other, which is idle", async () => {
      await using receiver = await startReceiver({ otherwise: { do: "hang" } });
      await using nodes = await startNodes("delivery: { perSubscription: 8 },");
      const [a] = nodes.all;
      await a.subscribe(receiver.url());
      await publish(a, 60, "a");
      // Eight of each.
      await receiver.waitFor(16);
    });

    it("share the work of one that is killed within twelve seconds", async () => {
      let dead = false;
      await using receiver = await startReceiver({ script: () => (dead ? 200 : { do: "hang" }) });
      await using nodes = await startNodes();
      const [a, b] = nodes.all;
      await a.subscribe(receiver.url());
      await publish(a, 40, "a");
      await receiver.waitFor(16);
      await a.kill();
      const killedAt = performance.now();
      dead = true;
      await delivered(b, 40, 30_000);
      expect(performance.now() - killedAt).toBeLessThan(12_000 + 6_000);
    });

    it("go on within seconds once a server that was killed is back, and repeat nothing that was stored", async () => {
      await using receiver = await startReceiver();
      await using nodes = await startNodes();
      const [a, b] = nodes.all;
      await a.subscribe(receiver.url());
      await publish(a, 20, "before");
      await delivered(b, 20, 20_000);
      await nodes.server.kill();
      const refused = await a.publish(events(1, "meanwhile"));
      expect(refused.status).toBe(503);
      await nodes.server.start();
      await eventually(
        "it takes events again",
        async () => (await a.publish(events(20, "after"))).status === 202,
        8_000,
      );
      await delivered(b, 40, 20_000);
      expect(receiver.requests).toHaveLength(40);
    });
  },
);
