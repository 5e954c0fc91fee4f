// A process with two threads is one relay: what several nodes promise holds over them, and one that dies is replaced.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { startChild, type ChildOptions, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { TEST_KEYS } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const CLAIMS = { sub: "tester", keys: ["*"], mfa: false, ttlMs: 600_000 };
const METRICS_TOKEN = "metrics-token-of-the-tests";

/** A plug-in that notes which thread does what, and ends its thread when an event of a certain type is accepted. */
const witness = (folder: string): string => `
import { appendFileSync } from "node:fs";
import { isMainThread, threadId } from "node:worker_threads";
const note = (what: string) => appendFileSync(${JSON.stringify(join(folder, "seen"))}, threadId + " " + what + "\\n");
// Set outside of setup: what this timer throws counts as the fault of no plug-in.
let throwing = false;
if (!isMainThread) setInterval(() => { if (throwing) throw new Error("thrown by nobody"); }, 10).unref();
const witness = {
  kind: "observer" as const,
  name: "witness",
  setup: () => ({
    accepted(event: { id: string; type: string }) {
      note("accepted " + event.id);
      if (event.type === "thread.throw") throwing = true;
      if (event.type === "thread.exit") process.exit(3);
    },
    refused: (code: string) => note("refused " + code),
    attempted: (_sub: unknown, delivery: { eventId: string }) => note("attempted " + delivery.eventId),
  }),
};`;

const startThreads = (folder: string, config = "", more: ChildOptions = {}): Promise<ChildRelay> =>
  startChild(folder, {
    ...more,
    head: witness(folder),
    config: `threads: 2, observers: [witness], metrics: { token: "${METRICS_TOKEN}" }, ${config}`,
  });

/** Threads that did this, with what they did it to. */
function seen(folder: string, what: string): readonly (readonly [thread: string, id: string])[] {
  const file = join(folder, "seen");
  const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  return lines.flatMap((line) => {
    const [thread = "", did, id = ""] = line.split(" ");
    return did === what ? [[thread, id] as const] : [];
  });
}

/** Publishes on a connection of its own, which the kernel gives to either thread. */
async function publish(relay: ChildRelay, id: string, type = "order.paid"): Promise<number> {
  for (;;) {
    const answer = await request(`${relay.url}/events`, {
      method: "POST",
      reset: true,
      headers: { authorization: `Bearer ${TEST_KEYS.publishToken}`, "content-type": "application/json" },
      body: JSON.stringify({ type, keyId: "key_1", id, data: { id } }),
    });
    const text = await answer.body.text();
    // A thread that lags, as right after its start on a busy machine, asks for a repeat, and says when.
    if (!text.includes("PROVIDER_BACKPRESSURE")) return answer.statusCode;
    const waitMs = Number(answer.headers["retry-after"]) * 1_000;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

async function subscribe(relay: ChildRelay, receiver: Receiver): Promise<string> {
  const made = await relay.call("POST", "/api-keys/key_1/webhooks", { url: receiver.url(), events: ["order.*"] });
  expect(made.status).toBe(201);
  return made.json.data.id;
}

async function metric(relay: ChildRelay, line: string): Promise<number> {
  const answer = await request(`${relay.url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  const text = await answer.body.text();
  return Number(
    text
      .split("\n")
      .find((one) => one.startsWith(`${line} `))
      ?.slice(line.length + 1),
  );
}

const many = (count: number, name = "event"): string[] => Array.from({ length: count }, (_, i) => `${name}:${i}`);
const ids = (receiver: Receiver): string[] => receiver.requests.map(({ headers }) => String(headers["webhook-id"]));

describe("a relay with two threads", () => {
  it("takes events in on both, delivers each once, and counts and shows them as one", async () => {
    await using receiver = await startReceiver();
    const folder = testFolder();
    await using relay = await startThreads(folder);
    await subscribe(relay, receiver);
    const events = many(60);
    for (const status of await Promise.all(events.map((id) => publish(relay, id)))) expect(status).toBe(202);
    await receiver.waitFor(60);
    expect(new Set(ids(receiver)).size).toBe(60);
    expect(new Set(seen(folder, "accepted").map(([thread]) => thread)).size).toBe(2);
    await eventually("each attempt is noted", () => seen(folder, "attempted").length === 60);
    expect(new Set(seen(folder, "attempted").map(([, id]) => id))).toEqual(new Set(events));
    expect(await metric(relay, 'relay_accepted_total{source="http"}')).toBe(60);
    expect(await metric(relay, 'relay_deliveries_total{outcome="delivered"}')).toBe(60);
    expect(await metric(relay, "relay_threads")).toBe(2);
    const ready = await relay.call("GET", "/readyz");
    expect(ready.json.data.parts.threads).toEqual({ ready: true, state: "2 of 2 run", required: false });
    const status = await relay.call("GET", "/relay/status");
    expect(status.json.data.node.threads).toBe("2 of 2 run");
    expect(receiver.requests).toHaveLength(60);
  });

  it("counts a limit once for both", async () => {
    const folder = testFolder();
    await using relay = await startThreads(folder, `limits: { "POST /events": { perMinute: 10, per5s: 10 } },`);
    const statuses = await Promise.all(many(40).map((id) => publish(relay, id)));
    expect(statuses.filter((status) => status === 202)).toHaveLength(10);
    expect(statuses.filter((status) => status === 429)).toHaveLength(30);
    const asked = [...seen(folder, "accepted"), ...seen(folder, "refused")];
    expect(new Set(asked.map(([thread]) => thread)).size).toBe(2);
  });

  it("acts by a changed subscription on both once the change is answered", async () => {
    await using receiver = await startReceiver();
    const folder = testFolder();
    await using relay = await startThreads(folder);
    // Both threads know that there is none.
    await Promise.all(many(12, "before").map((id) => publish(relay, id)));
    const id = await subscribe(relay, receiver);
    const matched = many(12, "matched");
    await Promise.all(matched.map((one) => publish(relay, one)));
    await receiver.waitFor(12);
    expect(new Set(ids(receiver)).size).toBe(12);
    expect((await relay.call("DELETE", `/api-keys/key_1/webhooks/${id}`)).status).toBe(204);
    await Promise.all(many(12, "after").map((one) => publish(relay, one)));
    for (const one of [...many(12, "before"), ...many(12, "after")]) {
      const shown = await relay.call("GET", `/api-keys/key_1/events/${one}`);
      expect(shown.json.data.deliveries).toEqual([]);
    }
    expect(receiver.requests).toHaveLength(12);
    expect(new Set(seen(folder, "accepted").map(([thread]) => thread)).size).toBe(2);
  });

  it.each(["thread.throw", "thread.exit"])(
    "loses nothing when a thread ends by %s, replaces it and says so",
    async (type) => {
      // The first twenty requests are under way when the thread ends.
      await using receiver = await startReceiver({
        script: (_, index) => ({ do: "reply", delayMs: index < 20 ? 2_000 : 0 }),
      });
      const folder = testFolder();
      await using relay = await startThreads(folder);
      await subscribe(relay, receiver);
      const events = many(40);
      for (const status of await Promise.all(events.map((id) => publish(relay, id)))) expect(status).toBe(202);
      await receiver.waitFor(5);
      // Its own answer may be cut off.
      await publish(relay, "last:1", type).catch(() => 0);
      await eventually(
        "each event is delivered",
        async () => {
          // A connection to the thread that ends is cut.
          const asked = events.map((id) => relay.call("GET", `/api-keys/key_1/events/${id}`).catch(() => undefined));
          return (await Promise.all(asked)).every((shown) => shown?.json.data?.status === "delivered");
        },
        60_000,
      );
      expect(new Set(ids(receiver)).size).toBe(40);
      const running = () => metric(relay, "relay_threads").catch(() => 0);
      await eventually("it is replaced", async () => (await running()) === 2, 60_000);
      expect(await metric(relay, 'relay_threads_replaced_total{reason="died"}')).toBe(1);
      expect((await relay.call("GET", "/readyz")).json.data.parts.threads.state).toMatch(/2 of 2 run, 1 replaced/);
      expect(relay.running.stderr()).toContain("a thread ended and is replaced");
      for (const status of await Promise.all(many(12, "later").map((id) => publish(relay, id))))
        expect(status).toBe(202);
    },
  );

  it("loses nothing that it acknowledged when the process is killed, and begins again", async () => {
    const folder = testFolder();
    await using receiver = await startReceiver({ script: many(10).map(() => ({ do: "hang" }) as const) });
    await using first = await startThreads(folder);
    await subscribe(first, receiver);
    const events = many(30);
    for (const status of await Promise.all(events.map((id) => publish(first, id)))) expect(status).toBe(202);
    await receiver.waitFor(5);
    await first.kill();
    await using second = await startThreads(folder);
    await eventually("each event has arrived", () => new Set(ids(receiver)).size === 30, 60_000);
    await eventually(
      "each event is delivered",
      async () => {
        const shown = await Promise.all(events.map((id) => second.call("GET", `/api-keys/key_1/events/${id}`)));
        return shown.every(({ json }) => json.data?.status === "delivered");
      },
      60_000,
    );
  });

  it("stops in order: requests under way are answered, attempts under way are stored, and it ends with 0", async () => {
    const folder = testFolder();
    await using receiver = await startReceiver({ otherwise: { do: "reply", delayMs: 500 } });
    await using relay = await startThreads(folder, "server: { port: 0, shutdownMs: 9_000 },");
    await subscribe(relay, receiver);
    for (const status of await Promise.all(many(20).map((id) => publish(relay, id)))) expect(status).toBe(202);
    await receiver.waitFor(10);
    relay.running.kill("SIGTERM");
    expect((await relay.running.ended).code).toBe(0);
    await using again = await startThreads(folder);
    await eventually("the rest is delivered", () => new Set(ids(receiver)).size === 20, 30_000);
    await eventually(
      "each is delivered",
      async () => {
        const shown = await Promise.all(many(20).map((id) => again.call("GET", `/api-keys/key_1/events/${id}`)));
        return shown.every(({ json }) => json.data?.status === "delivered");
      },
      30_000,
    );
    // What was under way was not made again.
    expect(receiver.requests).toHaveLength(20);
  });

  it("shows what happens on both in the live stream of one", async () => {
    const folder = testFolder();
    await using relay = await startThreads(folder);
    const stopping = new AbortController();
    const stream = await request(`${relay.url}/api-keys/key_1/stream`, {
      headers: { authorization: `Bearer ${await mintToken(makeKeys(TEST_KEYS), CLAIMS, systemClock())}` },
      signal: stopping.signal,
    });
    let text = "";
    stream.body.on("data", (chunk: Buffer) => (text += chunk.toString()));
    stream.body.on("error", () => undefined);
    await eventually("the stream is open", () => text.includes("hello"));
    const events = many(12);
    await Promise.all(events.map((id) => publish(relay, id)));
    expect(new Set(seen(folder, "accepted").map(([thread]) => thread)).size).toBe(2);
    await eventually("all of them are in the stream", () => events.every((id) => text.includes(`"id":"${id}"`)));
    stopping.abort();
  });
});
