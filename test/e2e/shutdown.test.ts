// A relay that is told to stop while it is busy: what is under way, what goes back, what publishers are told.
import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { startCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import { TEST_KEYS } from "../support/relay.ts";
import { until } from "../support/until.ts";

/** Longer than a stop takes on any machine, where nothing has to be waited for. */
const LONG = "server: { port: 0, shutdownMs: 60_000 }, delivery: { timeoutMs: 30_000 },";
const SOON_MS = 20_000;

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

describe.concurrent("SIGTERM", () => {
  it("lets attempts end that can, gives the others back uncounted, and they are made again under their number", async () => {
    await using receiver = await startReceiver({
      script: (request) => (request.path === "/slow" ? { do: "reply", delayMs: 700 } : { do: "hang" }),
    });
    // The hanging one is waited for, for three quarters of this; the rest is left for storing on a slow machine.
    const graceMs = 12_000;
    const folder = testFolder();
    const config = `server: { port: 0, shutdownMs: ${graceMs} }, delivery: { timeoutMs: 30_000 },`;
    const first = await startChild(folder, { config });
    await using _ = first;
    const { id: slow } = await first.subscribe(receiver.url("/slow"));
    const { id: hanging } = await first.subscribe(receiver.url("/hang"));
    expect((await first.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" })).status).toBe(202);
    await receiver.waitFor(2);
    const tookMs = await terminate(first);
    // No longer than the whole of it: then the process would have ended with another code.
    expect(tookMs).toBeGreaterThan(graceMs * 0.5);
    expect(tookMs).toBeLessThan(60_000);
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
      if (json.data.status === "pending") {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
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
    const folder = testFolder();
    const config = `${LONG} retry: { attempts: 3, firstDelayMs: 3_000, factor: 1 },`;
    const first = await startChild(folder, { config });
    await using _ = first;
    await first.subscribe(receiver.url("/soon"));
    await first.subscribe(receiver.url("/late"), { retry: { attempts: 3, firstDelayMs: 600_000, factor: 1 } });
    const from = Date.now();
    await first.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" });
    interface Shown {
      readonly status: string;
      readonly attempts: readonly unknown[];
    }
    const shown = async (relay: ChildRelay) => (await relay.event("one")).deliveries as readonly Shown[];
    await until(async () => (await shown(first)).every(({ attempts }) => attempts.length === 1));
    expect(await terminate(first)).toBeLessThan(SOON_MS);
    receiver.answer(() => 200);
    await using second = await startChild(folder, { config });
    const [, , again] = await receiver.waitFor(3, 60_000);
    expect([again?.path, again?.headers["x-relay-attempt"]]).toEqual(["/soon", "2"]);
    expect((again?.at ?? 0) - from).toBeGreaterThanOrEqual(3_000);
    await until(async () => (await shown(second)).some(({ status }) => status === "delivered"));
    expect((await shown(second)).map(({ status, attempts }) => [status, attempts.length]).toSorted()).toEqual([
      ["delivered", 2],
      ["pending", 1],
    ]);
    expect(second.running.stderr()).not.toContain('"level":"error"');
  });

  it("loses nothing that was answered with 202, and tells the others to come back", async () => {
    await using receiver = await startReceiver();
    const folder = testFolder();
    const relay = await startChild(folder, { config: LONG });
    await using _ = relay;
    await relay.subscribe(receiver.url());
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
          // A machine that does not keep up says so.
          else if (status === 429) expect(json.code).toBe("PROVIDER_BACKPRESSURE");
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
    expect([...statuses.keys()].filter((status) => !["202", "429", "503"].includes(status))).toEqual([]);

    await using second = await startChild(folder);
    const got = (): Set<string> => new Set(receiver.requests.map(({ headers }) => String(headers["webhook-id"])));
    await until(() => Promise.resolve([...accepted].every((id) => got().has(id))));
    expect(receiver.requests.length).toBe(got().size);
    expect(second.running.stderr()).not.toContain('"level":"error"');
  });

  it("does not wait for slow clients for ever, and stores nothing of theirs", async () => {
    const folder = testFolder();
    const relay = await startChild(folder, { config: "server: { port: 0, shutdownMs: 8_000 }," });
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
    // They have 30 s to send the whole of a request.
    expect(await stopped).toBeLessThan(SOON_MS);
    await using second = await startChild(folder);
    expect((await second.call("GET", "/api-keys/key_1/events/slow")).status).toBe(404);
  });

  it("a second signal ends it at once, whatever is under way", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "hang" } });
    const folder = testFolder();
    const relay = await startChild(folder, { config: LONG });
    await using _ = relay;
    await relay.subscribe(receiver.url());
    await relay.publish({ type: "a:b", keyId: "key_1", data: 1, id: "one" });
    await receiver.waitFor(1);
    relay.running.kill("SIGTERM");
    await until(async () => (await fetch(`${relay.url}/readyz`).catch(() => undefined))?.status !== 200);
    const from = performance.now();
    relay.running.kill("SIGTERM");
    expect((await relay.running.ended).code).toBe(143);
    expect(performance.now() - from).toBeLessThan(SOON_MS);
    // Nothing is lost by it.
    receiver.answer(() => 200);
    await using second = await startChild(folder);
    await receiver.waitFor(2);
    expect(receiver.requests[1]?.headers["x-relay-attempt"]).toBe("1");
    expect(second.running.stderr()).not.toContain('"level":"error"');
  });

  it("in the middle of a start ends it without a word of failure; a second one ends it at once", async () => {
    const folder = testFolder();
    const place = (name: string, ms: number, shutdownMs: number): string => {
      const cwd = join(folder, name);
      mkdirSync(cwd);
      writeFileSync(join(cwd, "relay.config.ts"), stuck(ms, shutdownMs));
      return cwd;
    };
    const stuck = (ms: number, shutdownMs: number) => `
      const slow = { kind: "source", name: "slow", setup: () => { console.error("in the middle"); return new Promise((done) => setTimeout(() => done({ start() {}, stop: async () => {} }), ${ms})); } };
      export default { server: { port: 0, shutdownMs: ${shutdownMs} }, sources: [slow] };`;
    await using one = startCommand(["start"], { cwd: place("one", 300, 60_000) });
    await one.waitFor(/in the middle/);
    one.kill("SIGTERM");
    expect(await one.ended).toMatchObject({ code: 0 });
    expect(one.stderr()).not.toContain("listening");

    await using two = startCommand(["start"], { cwd: place("two", 120_000, 60_000) });
    await two.waitFor(/in the middle/);
    two.kill("SIGTERM");
    two.kill("SIGINT");
    const from = performance.now();
    expect([130, 143]).toContain((await two.ended).code);
    expect(performance.now() - from).toBeLessThan(SOON_MS);

    await using three = startCommand(["start"], { cwd: place("three", 120_000, 500) });
    await three.waitFor(/in the middle/);
    three.kill("SIGTERM");
    // It hangs: the process ends all the same, soon after its time.
    expect((await three.ended).code).toBe(75);
    expect(three.stderr()).toContain("did not stop in time");
  });
});
