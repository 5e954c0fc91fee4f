import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { request } from "node:http";
import type { ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import type { Feed, FeedLine } from "../../core/api/resources/deps.ts";
import type { Principal, Refusal } from "../../core/ports/auth.ts";
import { createStreamPlaces } from "../../core/api/resources/live-feed.ts";
import { serve, tokenAuth } from "./serve.ts";
import { testClock } from "../support/clock.ts";

/** A feed that a test speaks into. */
function feed(): Feed & { tell(keyId: string, message: FeedLine): void; readonly listening: () => number } {
  const all = new Set<readonly [string, (message: FeedLine) => void]>();
  return {
    listen(keyId, tell) {
      const entry = [keyId, tell] as const;
      all.add(entry);
      return () => void all.delete(entry);
    },
    tell: (keyId, message) => all.forEach(([id, tell]) => id === keyId && tell(message)),
    listening: () => all.size,
  };
}

interface Stream {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  text(): string;
  /** Resolves when the text holds this. */
  until(part: string): Promise<void>;
  readonly ended: Promise<void>;
  leave(): void;
}

function open(port: number, target: string, token = "key_1"): Promise<Stream> {
  return new Promise((resolve, reject) => {
    const req = request({ port, path: target, agent: false, headers: { authorization: `Bearer ${token}` } }, (res) => {
      let text = "";
      const waiting: (() => void)[] = [];
      res.on("data", (chunk: Buffer) => {
        text += chunk.toString();
        for (const look of waiting) look();
      });
      res.on("error", () => {});
      resolve({
        status: res.statusCode ?? 0,
        headers: res.headers,
        text: () => text,
        until: (part) =>
          new Promise((found) => {
            const look = (): void => void (text.includes(part) && found());
            waiting.push(look);
            look();
          }),
        ended: new Promise((end) => res.once("close", end)),
        leave: () => req.destroy(),
      });
    });
    req.on("error", reject);
    req.end();
  });
}

const TARGET = "/api-keys/key_1/stream";

describe("the stream of a key", () => {
  it("tells of what happens on it, and of nothing else", async () => {
    const told = feed();
    await using api = await serve({ more: { feed: told } });
    const stream = await open(api.port, TARGET);
    expect([stream.status, stream.headers["content-type"]]).toEqual([200, "text/event-stream"]);
    expect(stream.headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
    expect(stream.headers["x-request-id"]).toMatch(/^req_/);
    await stream.until("hello");
    told.tell("key_2", { event: "event", data: { id: "foreign" } });
    told.tell("key_1", { event: "event", data: { id: "evt_1", text: "a\nb\n\nevent: fake" } });
    await stream.until("evt_1");
    expect(stream.text()).toContain('event: event\ndata: {"id":"evt_1","text":"a\\nb\\n\\nevent: fake"}\n\n');
    expect(stream.text()).not.toContain("foreign");
    stream.leave();
  });

  it("lets go of who leaves", async () => {
    const told = feed();
    await using api = await serve({ more: { feed: told } });
    let socket: Socket | undefined;
    const served = (message: unknown): void => void (socket = (message as { readonly socket: Socket }).socket);
    subscribe("http.server.request.start", served);
    const stream = await open(api.port, TARGET);
    unsubscribe("http.server.request.start", served);
    await stream.until("hello");
    expect([told.listening(), socket?.listenerCount("draining")]).toEqual([1, 1]);
    stream.leave();
    while (told.listening() > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(socket?.listenerCount("draining")).toBe(0);
  });

  it.each<readonly [string, beats: number, later: (found: Principal) => Principal | Refusal]>([
    ["with the token", 241, (found) => found],
    ["soon after the session was revoked", 1, () => ({ refused: "logged out" })],
    ["soon after its caller has lost the key", 1, (found) => ({ ...found, keys: ["key_2"] })],
  ])("ends %s", async (_, beats, later) => {
    const told = feed();
    const auth = tokenAuth(testClock().now);
    const { authenticate } = auth;
    let begun = false;
    auth.authenticate = async (request) => {
      const found = await authenticate(request);
      return begun && !("refused" in found) ? later(found) : found;
    };
    await using api = await serve({ more: { feed: told }, auth });
    const stream = await open(api.port, TARGET);
    await stream.until("hello");
    begun = true;
    for (let i = 0; i < beats; i++) await api.path.clock.advance(15_000);
    await stream.ended;
    expect(stream.text().includes("beat")).toBe(beats > 1);
    expect(told.listening()).toBe(0);
  });

  it("has twenty places for one caller, and keeps others from none of theirs", async () => {
    const told = feed();
    await using api = await serve({ more: { feed: told } });
    const own = await Promise.all(Array.from({ length: 21 }, () => open(api.port, TARGET)));
    expect(own.map(({ status }) => status).sort()).toEqual([...Array<number>(20).fill(200), 429]);
    const refused = own.find(({ status }) => status === 429) as Stream;
    await refused.until("PROVIDER_BACKPRESSURE");
    expect(refused.headers["retry-after"]).toBe("30");
    const other = await open(api.port, TARGET, "all");
    expect(other.status).toBe(200);
    own.find(({ status }) => status === 200)?.leave();
    while (told.listening() > 20) await new Promise((resolve) => setImmediate(resolve));
    const again = await open(api.port, TARGET);
    expect(again.status).toBe(200);
    for (const stream of [...own, other, again]) stream.leave();
  });

  it("is cut off when its client reads no more, by what waits or by the second beat", async () => {
    const told = feed();
    await using api = await serve({ more: { feed: told } });
    const deaf = (): Promise<Socket> =>
      new Promise((resolve) => {
        const socket = connect(api.port, "127.0.0.1").on("error", () => {});
        socket.write(`GET ${TARGET} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key_1\r\n\r\n`);
        socket.once("data", () => resolve(socket.pause()));
      });
    const text = "x".repeat(100_000);
    const first = await deaf();
    for (let i = 0; i < 400 && told.listening() > 0; i++) {
      told.tell("key_1", { event: "event", data: { text } });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(told.listening()).toBe(0);

    // As much as the kernel takes, then less than the bound: only time tells.
    let answer: ServerResponse | undefined;
    const note = (message: unknown): void => void (answer = (message as { response: ServerResponse }).response);
    subscribe("http.server.request.start", note);
    const second = await deaf();
    unsubscribe("http.server.request.start", note);
    while (answer?.writableLength === 0) {
      told.tell("key_1", { event: "event", data: { text } });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(told.listening()).toBe(1);
    for (let i = 0; i < 3 && told.listening() > 0; i++) await api.path.clock.advance(15_000);
    expect(told.listening()).toBe(0);
    for (const socket of [first, second]) socket.destroy();
  });

  it("is of one's own key only, and asks for its media type", async () => {
    await using api = await serve({ more: { feed: feed() } });
    expect((await api.ask("GET", TARGET, { token: "key_2" })).json.code).toBe("NOT_FOUND");
    expect((await api.ask("GET", TARGET, { headers: { accept: "application/json" } })).json.code).toBe(
      "NOT_ACCEPTABLE",
    );
    const head = await api.ask("HEAD", TARGET);
    expect([head.status, head.text]).toEqual([200, ""]);
  });

  it("takes no place for HEAD", async () => {
    await using api = await serve({ more: { feed: feed() } });
    for (let n = 0; n < 25; n++) expect((await api.ask("HEAD", TARGET)).status).toBe(200);
    const stream = await open(api.port, TARGET);
    expect(stream.status).toBe(200);
    stream.leave();
  });

  it("does not keep the relay from stopping", async () => {
    const told = feed();
    const api = await serve({ more: { feed: told } });
    const stream = await open(api.port, TARGET);
    await stream.until("hello");
    const began = performance.now();
    await api.listening.close(120_000);
    expect(performance.now() - began).toBeLessThan(60_000);
    await stream.ended;
    await api[Symbol.asyncDispose]();
    expect(told.listening()).toBe(0);
  });
});

describe("the places for streams", () => {
  const holder = (n: number, key = `key_${n}`) => ({ sub: `portal:${n}`, portal: `lnk_${n}`, keys: [key] });
  const operator = (n: number) => ({ sub: `operator ${n}`, keys: "*" as const });

  it("leave a hundred to operators, however many holders of portal links there are", () => {
    const places = createStreamPlaces();
    for (let n = 0; n < 400; n++) places.take(holder(n));
    expect(() => places.take(holder(400))).toThrow("come back later");
    const taken = Array.from({ length: 100 }, (_, n) => places.take(operator(n)));
    expect(() => places.take(operator(100))).toThrow("come back later");
    for (const leave of taken) leave();
    expect(() => places.take(holder(400))).toThrow("come back later");
    places.take(operator(0));
  });

  it("are twenty for one caller, by whichever link or token, who gives each back", () => {
    const places = createStreamPlaces();
    const taken = Array.from({ length: 20 }, () => places.take(holder(1)));
    expect(() => places.take(holder(1))).toThrow("20 streams");
    taken[0]?.();
    places.take(holder(1));
    places.take(holder(2));
  });

  it("are a hundred for one customer, however many links to the portal of their key there are", () => {
    const places = createStreamPlaces();
    const taken = Array.from({ length: 100 }, (_, n) => places.take(holder(n, "key_1")));
    expect(() => places.take(holder(100, "key_1"))).toThrow("100 streams");
    places.take(holder(101, "key_2"));
    // Those who manage the key are not its customers.
    places.take({ ...operator(1), keys: ["key_1"] });
    taken[0]?.();
    places.take(holder(100, "key_1"));
    expect(() => places.take(holder(102, "key_1"))).toThrow("100 streams");
  });
});
