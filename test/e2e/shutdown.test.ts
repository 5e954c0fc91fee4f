// A relay that is told to stop while it is busy: what is under way, what goes back, what publishers are told.
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { startReceiver } from "../support/receiver.ts";
import { TEST_KEYS } from "../support/relay.ts";
import { until } from "../support/until.ts";

const base = mkdtempSync(join(tmpdir(), "relay-stop-"));
afterAll(() => rmSync(base, { recursive: true }));
let folder: string;
beforeEach(() => (folder = mkdtempSync(join(base, "case-"))));

const GRACE_MS = 2_000;

async function subscribe(relay: ChildRelay, url: string): Promise<string> {
  const made = await relay.call("POST", "/api-keys/key_1/webhooks", { url, events: ["*"] });
  expect(made.status).toBe(201);
  return made.json.data.id as string;
}

/** SIGTERM, and how long it took until the process was gone. */
async function terminate(relay: ChildRelay): Promise<number> {
  const from = performance.now();
  relay.running.kill("SIGTERM");
  expect((await relay.running.ended).code).toBe(0);
  return performance.now() - from;
}

const head = (length: number, more = ""): string =>
  `POST /events HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer ${TEST_KEYS.publishToken}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${length}\r\n${more}\r\n`;

/** A raw client: everything that it got until its connection ended. */
function client(port: number, first: string) {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  const heard = Promise.withResolvers<string>();
  socket.setEncoding("latin1").on("data", (part: string) => (text += part));
  socket.on("error", () => undefined);
  socket.on("close", () => heard.resolve(text));
  const sent = new Promise<void>((resolve) => socket.write(first, () => resolve()));
  return { sent, send: (more: string) => void socket.write(more), end: heard.promise };
}

describe("SIGTERM", () => {
  it("lets attempts end that can, gives the others back uncounted, and they are made again under their number", async () => {
    await using receiver = await startReceiver({
      script: (request) => (request.path === "/slow" ? { do: "reply", delayMs: 700 } : { do: "hang" }),
    });
    const first = await startChild(folder);
    await using _ = first;
    const slow = await subscribe(first, receiver.url("/slow"));
    const hanging = await subscribe(first, receiver.url("/hang"));
    expect((await first.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" })).status).toBe(202);
    await receiver.waitFor(2);
    const tookMs = await terminate(first);
    // The hanging one is waited for, for three quarters of the time, and no longer than the whole of it.
    expect(tookMs).toBeGreaterThan(GRACE_MS * 0.5);
    expect(tookMs).toBeLessThan(GRACE_MS + 500);
    expect(first.running.stderr()).not.toContain("did not stop");

    receiver.answer(() => 200);
    await using second = await startChild(folder);
    await receiver.waitFor(3);
    const again = receiver.requests[2];
    expect(again?.path).toBe("/hang");
    expect(again?.headers["x-relay-attempt"]).toBe("1");
    expect(again?.headers["webhook-id"]).toBe("one");
    for (;;) {
      const { json } = await second.call("GET", "/api-keys/key_1/events/one");
      if (json.data.status === "pending") continue;
      const deliveries = json.data.deliveries as { subscriptionId: string; status: string; attempts: unknown[] }[];
      const of = (id: string) => deliveries.find((one) => one.subscriptionId === id);
      expect(of(slow)).toMatchObject({ status: "delivered", attempts: [{ number: 1, statusCode: 200 }] });
      expect(of(hanging)).toMatchObject({ status: "delivered", attempts: [{ number: 1, statusCode: 200 }] });
      break;
    }
    expect(receiver.requests).toHaveLength(3);
  });

  it("does not wait for retries: they go back with their times and numbers", async () => {
    await using receiver = await startReceiver({ otherwise: 500 });
    const config = "retry: { attempts: 3, firstDelayMs: 3000, factor: 1 },";
    const first = await startChild(folder, { config });
    await using _ = first;
    await subscribe(first, receiver.url());
    const from = Date.now();
    await first.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" });
    await receiver.waitFor(1);
    await until(
      async () => (await first.call("GET", "/api-keys/key_1/events/one")).json.data.deliveries[0].attempts.length === 1,
    );
    expect(await terminate(first)).toBeLessThan(GRACE_MS / 2);
    receiver.answer(() => 200);
    await using second = await startChild(folder, { config });
    await receiver.waitFor(2);
    expect(receiver.requests[1]?.headers["x-relay-attempt"]).toBe("2");
    expect((receiver.requests[1]?.at ?? 0) - from).toBeGreaterThanOrEqual(3_000);
    expect(second.running.stderr()).not.toContain('"level":"error"');
  });

  it("loses nothing that was answered with 202, and tells the others to come back", async () => {
    await using receiver = await startReceiver();
    const relay = await startChild(folder);
    await using _ = relay;
    await subscribe(relay, receiver.url());
    const accepted = new Set<string>();
    const statuses = new Map<string, number>();
    let next = 0;
    let stopping = false;
    const publisher = async (): Promise<void> => {
      for (;;) {
        const id = `e${next++}`;
        try {
          const { status, json } = await relay.publish({ type: "a:b", keyId: "key_1", data: 1, id });
          statuses.set(String(status), (statuses.get(String(status)) ?? 0) + 1);
          if (status === 202) accepted.add(id);
          else expect(json.code).toBe("SHUTTING_DOWN");
        } catch {
          // The connection was closed, or there is nobody any more.
          if (stopping) return;
        }
      }
    };
    const publishers = Array.from({ length: 8 }, publisher);
    await until(() => Promise.resolve(accepted.size > 200));
    stopping = true;
    await terminate(relay);
    await Promise.all(publishers);
    expect([...statuses.keys()].filter((status) => status !== "202" && status !== "503")).toEqual([]);

    await using second = await startChild(folder);
    const got = (): Set<string> => new Set(receiver.requests.map(({ headers }) => String(headers["webhook-id"])));
    await until(() => Promise.resolve([...accepted].every((id) => got().has(id))));
    expect(receiver.requests.length).toBe(got().size);
    expect(second.running.stderr()).not.toContain('"level":"error"');
  });

  it("does not wait for slow clients for ever, and stores nothing of theirs", async () => {
    const relay = await startChild(folder);
    await using _ = relay;
    const port = Number(new URL(relay.url).port);
    const body = JSON.stringify({ type: "a:b", keyId: "key_1", data: 1, id: "slow" });
    const half = client(port, head(body.length) + body.slice(0, 10));
    const headOnly = client(port, head(body.length).slice(0, 40));
    const idle = client(port, "");
    const late = client(port, head(body.length) + body.slice(0, 10));
    await Promise.all([half.sent, headOnly.sent, late.sent]);
    // One whole exchange behind theirs: the server has read what they sent.
    await relay.call("GET", "/relay/status");
    const stopped = terminate(relay);
    // The body comes when nothing is taken in any more: it is refused, and told when to come back.
    await until(async () => (await fetch(`${relay.url}/readyz`).catch(() => undefined))?.status !== 200);
    late.send(body.slice(10));
    const answer = await late.end;
    if (answer !== "") {
      expect(answer).toMatch(/^HTTP\/1\.1 503 /);
      expect(answer).toMatch(/\r\nretry-after: \d+\r\n/i);
      expect(answer).toMatch(/\r\nconnection: close\r\n/i);
      expect(answer).toContain('"code":"SHUTTING_DOWN"');
    }
    expect(await half.end).not.toContain("202");
    expect(await headOnly.end).not.toContain("202");
    await idle.end;
    expect(await stopped).toBeLessThan(GRACE_MS + 500);
    await using second = await startChild(folder);
    expect((await second.call("GET", "/api-keys/key_1/events/slow")).status).toBe(404);
  });

  it("a second signal ends it at once, whatever is under way", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    const relay = await startChild(folder);
    await using _ = relay;
    await subscribe(relay, receiver.url());
    await relay.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" });
    await receiver.waitFor(1);
    relay.running.kill("SIGTERM");
    await until(async () => (await fetch(`${relay.url}/readyz`).catch(() => undefined))?.status !== 200);
    const from = performance.now();
    relay.running.kill("SIGTERM");
    expect((await relay.running.ended).code).toBe(143);
    expect(performance.now() - from).toBeLessThan(500);
    // Nothing is lost by it.
    receiver.answer(() => 200);
    await using second = await startChild(folder);
    await receiver.waitFor(2);
    expect(receiver.requests[1]?.headers["x-relay-attempt"]).toBe("1");
    expect(second.running.stderr()).not.toContain('"level":"error"');
  });

  it("in the middle of a start ends it without a word of failure; a second one ends it at once", async () => {
    const { startCommand } = await import("../support/command.ts");
    const { writeFileSync } = await import("node:fs");
    const stuck = (ms: number) => `
      const slow = { kind: "source", name: "slow", setup: () => { console.error("in the middle"); return new Promise((done) => setTimeout(() => done({ start() {}, stop: async () => {} }), ${ms})); } };
      export default { server: { port: 0, shutdownMs: 2000 }, sources: [slow] };`;
    writeFileSync(join(folder, "relay.config.ts"), stuck(300));
    await using one = startCommand(["start"], { cwd: folder });
    await one.waitFor(/in the middle/);
    one.kill("SIGTERM");
    expect(await one.ended).toMatchObject({ code: 0 });
    expect(one.stderr()).not.toContain("listening");

    writeFileSync(join(folder, "relay.config.ts"), stuck(60_000));
    await using two = startCommand(["start"], { cwd: folder });
    await two.waitFor(/in the middle/);
    two.kill("SIGTERM");
    two.kill("SIGINT");
    const from = performance.now();
    expect([130, 143]).toContain((await two.ended).code);
    expect(performance.now() - from).toBeLessThan(1_000);

    await using three = startCommand(["start"], { cwd: folder });
    await three.waitFor(/in the middle/);
    three.kill("SIGTERM");
    // It hangs: the process ends all the same, soon after its time.
    expect((await three.ended).code).toBe(75);
    expect(three.stderr()).toContain("did not stop in time");
  });
});
