// A process with two threads is one relay: what several nodes promise holds over them, and one that dies is replaced.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
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

const startThreads = (folder: string, config = ""): Promise<ChildRelay> =>
  startChild(folder, {
    head: witness(folder),
    config: `threads: 2, observers: [witness], metrics: { token: "${METRICS_TOKEN}" },
  server: { port: 0, shutdownMs: 60_000 }, ${config}`,
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
async function publish(relay: ChildRelay, keyId: string, id: string, type = "order.paid"): Promise<number> {
  for (;;) {
    const answer = await request(`${relay.url}/events`, {
      method: "POST",
      reset: true,
      headers: { authorization: `Bearer ${TEST_KEYS.publishToken}`, "content-type": "application/json" },
      body: JSON.stringify({ type, keyId, id, data: { id } }),
    });
    const text = await answer.body.text();
    // A thread that lags, as right after its start on a busy machine, asks for a repeat, and says when.
    if (!text.includes("PROVIDER_BACKPRESSURE")) return answer.statusCode;
    const waitMs = Number(answer.headers["retry-after"]) * 1_000;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

async function accepted(relay: ChildRelay, keyId: string, events: readonly string[]): Promise<void> {
  for (const status of await Promise.all(events.map((id) => publish(relay, keyId, id)))) expect(status).toBe(202);
}

async function subscribe(relay: ChildRelay, keyId: string, receiver: Receiver): Promise<string> {
  const made = await relay.call("POST", `/api-keys/${keyId}/webhooks`, { url: receiver.url(), events: ["order.*"] });
  expect(made.status).toBe(201);
  return made.json.data.id;
}

/** Waits until these events of a key are delivered. */
const delivered = (relay: ChildRelay, keyId: string, events: readonly string[]): Promise<void> =>
  eventually(
    "each event is delivered",
    async () => {
      // A connection to a thread that ends is cut.
      const listed = await relay.call("GET", `/api-keys/${keyId}/events?limit=200`).catch(() => undefined);
      const all = (listed?.json.data ?? []) as readonly { readonly id: string; readonly status: string }[];
      const ended = new Set(all.filter(({ status }) => status === "delivered").map(({ id }) => id));
      return events.every((id) => ended.has(id));
    },
    60_000,
  );

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

const many = (count: number, name: string): string[] => Array.from({ length: count }, (_, i) => `${name}:${i}`);
const ids = (receiver: Receiver): string[] => receiver.requests.map(({ headers }) => String(headers["webhook-id"]));
const threadsOf = (folder: string, what: string, events: readonly string[]): number =>
  new Set(
    seen(folder, what)
      .filter(([, id]) => events.includes(id))
      .map(([thread]) => thread),
  ).size;

describe("a relay with two threads", () => {
  // One relay lives through all of this, in order; each test has a key of its own.
  let folder: string;
  let relay: ChildRelay;
  beforeAll(async () => {
    folder = testFolder();
    relay = await startThreads(folder);
  });
  afterAll(() => relay[Symbol.asyncDispose]());

  it("takes events in on both, delivers each once, and counts and shows them as one", async () => {
    await using receiver = await startReceiver();
    await subscribe(relay, "key_both", receiver);
    const events = many(60, "both");
    await accepted(relay, "key_both", events);
    await receiver.waitFor(60, 60_000);
    expect(new Set(ids(receiver)).size).toBe(60);
    expect(threadsOf(folder, "accepted", events)).toBe(2);
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

  it("acts by a changed subscription on both once the change is answered", async () => {
    await using receiver = await startReceiver();
    const [before, matched, after] = [many(12, "before"), many(12, "matched"), many(12, "after")];
    // Both threads know that there is none.
    await accepted(relay, "key_changed", before);
    const id = await subscribe(relay, "key_changed", receiver);
    await accepted(relay, "key_changed", matched);
    await receiver.waitFor(12, 60_000);
    expect(new Set(ids(receiver)).size).toBe(12);
    expect((await relay.call("DELETE", `/api-keys/key_changed/webhooks/${id}`)).status).toBe(204);
    await accepted(relay, "key_changed", after);
    for (const one of [...before, ...after]) {
      const shown = await relay.call("GET", `/api-keys/key_changed/events/${one}`);
      expect(shown.json.data.deliveries).toEqual([]);
    }
    expect(receiver.requests).toHaveLength(12);
    expect(threadsOf(folder, "accepted", [...before, ...matched, ...after])).toBe(2);
  });

  it("shows what happens on both in the live stream of one", async () => {
    const stopping = new AbortController();
    const stream = await request(`${relay.url}/api-keys/key_stream/stream`, {
      headers: { authorization: `Bearer ${await mintToken(makeKeys(TEST_KEYS), CLAIMS, systemClock())}` },
      signal: stopping.signal,
    });
    let text = "";
    stream.body.on("data", (chunk: Buffer) => (text += chunk.toString()));
    stream.body.on("error", () => undefined);
    await eventually("the stream is open", () => text.includes("hello"));
    const events = many(12, "streamed");
    await accepted(relay, "key_stream", events);
    expect(threadsOf(folder, "accepted", events)).toBe(2);
    await eventually("all of them are in the stream", () => events.every((id) => text.includes(`"id":"${id}"`)));
    stopping.abort();
  });

  it.each([
    ["thread.throw", "thrown", 1],
    ["thread.exit", "left", 2],
  ])("loses nothing when a thread ends by %s, replaces it and says so", async (type, name, replaced) => {
    // Requests of both threads are under way when one ends.
    const ended = Promise.withResolvers<void>();
    await using receiver = await startReceiver({
      script: async (_, index) => {
        if (index < 8) await ended.promise;
        return 200;
      },
    });
    const key = `key_${name}`;
    await subscribe(relay, key, receiver);
    const events = many(40, name);
    await accepted(relay, key, events);
    await receiver.waitFor(8, 60_000);
    // Its own answer may be cut off.
    await publish(relay, key, `${name}:last`, type).catch(() => 0);
    await relay.running.waitFor(new RegExp(`(?:a thread ended and is replaced[^]*){${replaced}}`));
    ended.resolve();
    await delivered(relay, key, events);
    expect(new Set(ids(receiver)).size).toBe(40);
    const running = () => metric(relay, "relay_threads").catch(() => 0);
    await eventually("it is replaced", async () => (await running()) === 2, 60_000);
    expect(await metric(relay, 'relay_threads_replaced_total{reason="died"}')).toBe(replaced);
    const { state } = (await relay.call("GET", "/readyz")).json.data.parts.threads;
    expect(state).toContain(`2 of 2 run, ${replaced} replaced`);
    const later = many(12, `${name}:later`);
    await accepted(relay, key, later);
  });

  it("loses nothing that it acknowledged when the process is killed, and begins again", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    await subscribe(relay, "key_killed", receiver);
    const events = many(30, "killed");
    await accepted(relay, "key_killed", events);
    await receiver.waitFor(5, 60_000);
    await relay.kill();
    receiver.answer([]);
    relay = await startThreads(folder);
    await eventually("each event has arrived", () => new Set(ids(receiver)).size === 30, 60_000);
    await delivered(relay, "key_killed", events);
  });

  it("stops in order: requests under way are answered, attempts under way are stored, and it ends with 0", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "reply", delayMs: 500 } });
    await subscribe(relay, "key_stopped", receiver);
    const events = many(20, "stopped");
    await accepted(relay, "key_stopped", events);
    await receiver.waitFor(10, 60_000);
    relay.running.kill("SIGTERM");
    expect((await relay.running.ended).code).toBe(0);
    relay = await startThreads(folder, `limits: { "*": false, "POST /events": { perMinute: 10, per5s: 10 } },`);
    await eventually("the rest is delivered", () => new Set(ids(receiver)).size === 20, 30_000);
    await delivered(relay, "key_stopped", events);
    // What was under way was not made again.
    expect(receiver.requests).toHaveLength(20);
  });

  it("counts a limit once for both", async () => {
    const refusedBefore = seen(folder, "refused").length;
    const events = many(40, "limited");
    const statuses = await Promise.all(events.map((id) => publish(relay, "key_limited", id)));
    expect(statuses.filter((status) => status === 202)).toHaveLength(10);
    expect(statuses.filter((status) => status === 429)).toHaveLength(30);
    const taken = seen(folder, "accepted").filter(([, id]) => events.includes(id));
    const asked = [...taken, ...seen(folder, "refused").slice(refusedBefore)];
    expect(new Set(asked.map(([thread]) => thread)).size).toBe(2);
  });
});
