// A relay whose subscriptions fail in great numbers sends to them in a thread of its own, and loses nothing by it.
import { expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";

const SUBSCRIPTIONS = 20;
const EVENTS = 5;

it("sends to subscriptions that fail in a thread of its own, and to all of them again once they answer", async () => {
  let healed = false;
  await using receiver = await startReceiver({ script: () => (healed ? 200 : 500) });
  const folder = testFolder();
  // On a busy machine a stop takes more than the two seconds that are usual here.
  const config = `server: { port: 0, shutdownMs: 30_000 }, log: { level: "info" }, health: false,
    retry: { delaysMs: [3_000, 3_000, 3_000, 60_000] },`;
  await using relay = await startChild(folder, { config });
  await Promise.all(
    Array.from({ length: SUBSCRIPTIONS }, async (_, n) => {
      const made = await relay.call("POST", "/api-keys/key_1/webhooks", { url: receiver.url(`/${n}`), events: ["*"] });
      expect(made.status).toBe(201);
    }),
  );
  const publish = async (id: string): Promise<void> =>
    expect((await relay.publish({ type: "a:b", keyId: "key_1", id, data: id })).status).toBe(202);
  // On a slow machine it takes many to make a great number of failures a second.
  const helped = (): boolean => /a side thread sends to the subscriptions/.test(relay.running.stderr());
  for (let n = 0; !helped(); n++) {
    await publish(`before-${n}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const before = receiver.requests.length;
  for (let n = 0; n < EVENTS; n++) await publish(`e${n}`);
  await expect.poll(() => receiver.requests.length - before).toBeGreaterThanOrEqual(SUBSCRIPTIONS * EVENTS);
  // The thread has connections of its own, to a receiver that had some already.
  const connections = new Set(receiver.requests.slice(0, before).map(({ connection }) => connection));
  expect(receiver.requests.slice(before).some(({ connection }) => !connections.has(connection))).toBe(true);
  healed = true;
  for (let n = 0; n < EVENTS; n++) {
    const of = async () => (await relay.call("GET", `/api-keys/key_1/events/e${n}`)).json.data;
    // On a slow machine it is the last attempt that finds them healed.
    await expect.poll(async () => (await of()).status, { interval: 50, timeout: 150_000 }).toBe("delivered");
  }
  const arrived = new Map<string, number>();
  for (const { path, headers } of receiver.requests) {
    const attempt = `${String(headers["webhook-id"])} ${path} ${String(headers["x-relay-attempt"])}`;
    arrived.set(attempt, (arrived.get(attempt) ?? 0) + 1);
  }
  expect([...arrived].filter(([, times]) => times > 1)).toEqual([]);
  relay.running.kill("SIGTERM");
  expect((await relay.running.ended).code).toBe(0);
  const lines = relay.running.stderr().split("\n");
  expect(lines.filter((line) => /"level":"(error|warn)"/.test(line))).toEqual([]);
}, 400_000);
