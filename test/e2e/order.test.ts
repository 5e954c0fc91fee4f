// Ordered subscriptions over real sockets: what is promised in docs/order.md, its operations and its commands.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sqlite } from "../../config/index.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";
import { kept } from "../support/kept.ts";
import { needs } from "../support/needs.ts";
import { startNodes, type Nodes } from "../support/nodes.ts";
import { startReceiver, type Received } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const HOOKS = "/api-keys/key_1/webhooks";
const idOf = ({ headers }: Received): string => headers["webhook-id"] as string;
const once = { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 };

const receiver = kept(await startReceiver());
const relay = kept(await startRelay());

async function publish(to: Pick<TestRelay, "publish">, data: unknown, keyId = "key_1"): Promise<string> {
  const made = await to.publish({ type: "deposit:paid", keyId, data });
  expect(made.status, made.text).toBe(202);
  return made.json.data.id as string;
}

const subscribe = async (more: object, keyId = "key_1", to = relay, url = receiver.url()): Promise<string> =>
  (await to.subscribe(url, { ordered: true, ...more }, keyId)).id;

describe("ordered subscriptions", () => {
  it("show how they are ordered, and clear it", async () => {
    const id = await subscribe({ orderBy: "data.account", onFailed: "hold" }, "key_fields");
    const hook = `/api-keys/key_fields/webhooks/${id}`;
    const ordering = { ordered: true, orderBy: "data.account", onFailed: "hold" };
    expect((await relay.call("GET", hook)).json.data).toMatchObject(ordering);
    const cleared = (await relay.call("PATCH", hook, { body: { ordered: false } })).json.data;
    for (const name of Object.keys(ordering)) expect(cleared).not.toHaveProperty(name);
    const refused = await relay.call("PATCH", hook, { body: { onFailed: "hold" } });
    expect([refused.status, refused.json.errors[0].path]).toEqual([400, "onFailed"]);
    const path = await relay.call("PATCH", hook, { body: { ordered: true, orderBy: "other.account" } });
    expect([path.status, path.json.errors[0].path]).toEqual([400, "orderBy"]);
  });

  it("are at most ten of one key", async () => {
    for (let n = 0; n < 10; n++) await subscribe({}, "key_many");
    const body = { url: receiver.url(), events: ["*"], ordered: true };
    const more = await relay.call("POST", "/api-keys/key_many/webhooks", { body });
    expect([more.status, more.json.code]).toEqual([409, "SUBSCRIPTION_LIMIT_REACHED"]);
    const plain = await relay.call("POST", "/api-keys/key_many/webhooks", { body: { ...body, ordered: false } });
    const later = await relay.call("PATCH", `/api-keys/key_many/webhooks/${plain.json.data.id as string}`, {
      body: { ordered: true },
    });
    expect([later.status, later.json.code]).toEqual([409, "SUBSCRIPTION_LIMIT_REACHED"]);
  });

  it("get a batch in the order of its lines, while publishers publish at the same time", async () => {
    await using own = await startReceiver();
    await subscribe({}, "key_batch", relay, own.url());
    const batches = await Promise.all(
      Array.from({ length: 6 }, (_, b) =>
        relay.publish(
          Array.from({ length: 20 }, (_, n) => ({ type: "deposit:paid", keyId: "key_batch", data: { b, n } })),
        ),
      ),
    );
    const got = (await own.waitFor(120)).map(idOf);
    for (const { status, json } of batches) {
      expect(status).toBe(202);
      const ids = (json.data as { id: string }[]).map(({ id }) => id);
      expect(got.filter((id) => ids.includes(id))).toEqual(ids);
    }
    expect(own.connections()).toBe(1);
  });

  it("are held up by a failed one over a restart, until it is skipped; the audit trail and the commands know", async () => {
    const folder = testFolder();
    await using own = await startReceiver({ script: [500] });
    const config = { storage: sqlite(), health: false as const };
    let node = await startRelay(config, folder);
    const id = await subscribe({ onFailed: "hold", retry: once }, "key_1", node, own.url());
    const ids = [await publish(node, 1), await publish(node, 2), await publish(node, 3)];
    const order = async (): Promise<{ waiting: number; held: { eventId: string }[] }> =>
      (await node.call("GET", `${HOOKS}/${id}/order`)).json.data;
    await eventually("the first one is held", async () => (await order()).held.length === 1);
    expect(await order()).toMatchObject({ ordered: true, waiting: 2, held: [{ eventId: ids[0] }] });
    await node.stop();
    node = await startRelay(config, folder);
    try {
      expect(await order()).toMatchObject({ waiting: 2, held: [{ eventId: ids[0] }] });
      const env = { RELAY_URL: node.url, RELAY_TOKEN: await node.token() };
      const shown = await runHere(["subscriptions", "order", id, "--key", "key_1"], { env });
      expect([shown.code, shown.stderr]).toEqual([0, expect.stringContaining("ordered, 2 waiting")]);
      expect(shown.stdout).toContain(ids[0]);
      const skipped = await runHere(["subscriptions", "skip", id, "--key", "key_1", "--json"], { env });
      expect(JSON.parse(skipped.stdout)).toEqual({ skipped: 1 });
      expect((await own.waitFor(3)).map(idOf)).toEqual(ids);
      expect((await node.call("POST", `${HOOKS}/${id}/skip`)).json.data).toEqual({ skipped: 0 });
      const audit = (await node.call("GET", "/api-keys/key_1/audit")).json.data as { action: string; detail: string }[];
      expect(audit.find(({ action }) => action === "delivery.skipped")?.detail).toBe(ids[0]);
      await eventually("nothing waits", async () => (await order()).waiting === 0);
    } finally {
      await node.stop();
    }
  });

  it("are shown waiting without a time of their own, and not lost among pending deliveries", async () => {
    await using own = await startReceiver({ script: [{ do: "hang" }] });
    const id = await subscribe({}, "key_view", relay, own.url());
    const first = await publish(relay, 1, "key_view");
    const second = await publish(relay, 2, "key_view");
    await own.waitFor(1);
    const path = `/api-keys/key_view/webhooks/${id}`;
    const { data } = (await relay.call("GET", `${path}/deliveries?status=pending`)).json;
    expect((data as { eventId: string }[]).map(({ eventId }) => eventId)).toEqual([second, first]);
    expect(data[0]).toMatchObject({ inOrder: true, attempts: [] });
    expect(data[0]).not.toHaveProperty("nextAttemptAt");
    expect((await relay.call("GET", `${path}/order`)).json.data).toMatchObject({ waiting: 1 });
    expect((await relay.call("DELETE", path)).status).toBe(204);
    const ended = (await relay.event(second, "key_view")) as { status: string };
    expect(ended.status).toBe("cancelled");
  });
});

const missing = needs("redis");
describe.skipIf(missing !== undefined)(`two nodes${missing === undefined ? "" : ` (${missing})`}`, () => {
  let nodes: Nodes;
  beforeAll(async () => {
    nodes = await startNodes({ config: `health: false,` });
  });
  afterAll(() => nodes?.[Symbol.asyncDispose]());

  it("send in the order in which either of them accepted, also while the receiver fails now and then", async () => {
    await using own = await startReceiver({ script: (_, index) => (index % 7 === 3 ? 500 : 200) });
    const [a, b] = nodes.all as [Nodes["all"][number], Nodes["all"][number]];
    const retry = { attempts: 5, firstDelayMs: 10, factor: 1, maxDelayMs: 10 };
    await a.subscribe(own.url(), { ordered: true, retry });
    const ids: string[] = [];
    for (let n = 0; n < 60; n++) {
      const made = await (n % 2 === 0 ? a : b).publish({ type: "deposit:paid", keyId: "key_1", data: { n } });
      expect(made.status).toBe(202);
      ids.push(made.json.data.id as string);
    }
    // Each of the 60, and every seventh request again.
    await own.waitFor(60 + 10);
    const got = own.requests.map(idOf);
    expect(got.filter((id, i) => got[i - 1] !== id)).toEqual(ids);
  });
});
