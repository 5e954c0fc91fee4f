/** The https transport over HTTP/2, against Node's own server: many attempts of a key on one connection. */
import type { Http2ServerResponse } from "node:http2";
import { describe, expect, it } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { Reply, TransportRequest } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import type { HttpsOptions } from "../../plugins/transport/https.ts";
import { testClock } from "../support/clock.ts";
import { startHttp2Receiver, type Answer, type Http2Receiver } from "../support/http2-receiver.ts";
import { openHttps, type HttpsLine } from "../support/https.ts";
import { startProxy } from "../support/proxy.ts";
import { startReceiver } from "../support/receiver.ts";

type Send = (over?: Partial<TransportRequest>, signal?: AbortSignal) => Promise<Reply>;

const open = (options: HttpsOptions = {}, clock?: Clock): Promise<HttpsLine> =>
  openHttps({ options: { http2: true, ...options }, ...(clock && { clock }) });

const to =
  (line: HttpsLine, receiver: Http2Receiver): Send =>
  (over, signal) =>
    line.send({ url: receiver.url(), ...over }, signal);

const connectionsOf = ({ requests }: Http2Receiver): readonly number[] => requests.map(({ connection }) => connection);
const reply =
  (status: number): Answer =>
  (_, response) =>
    void response.writeHead(status).end();

describe("requests of one subscription", () => {
  it("share one connection, a thousand of them, though none was known when they began", async () => {
    await using receiver = await startHttp2Receiver();
    await using line = await open();
    const send = to(line, receiver);
    let sent = 0;
    const some = async (): Promise<void> => {
      while (sent++ < 1_000) expect(await send({ body: Buffer.from(String(sent)) })).toMatchObject({ status: 200 });
    };
    await Promise.all(Array.from({ length: 25 }, some));
    expect(receiver.requests).toHaveLength(1_000);
    expect(receiver.connections()).toBe(1);
    expect(receiver.most()).toBeGreaterThan(1);
    expect(receiver.requests.every(({ version }) => version === "2.0")).toBe(true);
    expect(new Set(receiver.requests.map(({ body }) => body.toString())).size).toBe(1_000);
  });

  it("go by HTTP/1.1 to a receiver that does not offer HTTP/2, on a connection each", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "reply", delayMs: 300 } });
    await using line = await open();
    const send = () => line.send({ url: receiver.url() });
    for (let i = 0; i < 2; i++) {
      const all = await Promise.all([send(), send(), send(), send()]);
      for (const one of all) expect(one).toMatchObject({ status: 200 });
    }
    expect(receiver.connections()).toBe(4);
  });

  it("go by HTTP/1.1 when HTTP/2 is not offered to the receiver", async () => {
    await using receiver = await startHttp2Receiver();
    await using line = await open({ http2: false });
    expect(await to(line, receiver)()).toMatchObject({ status: 200 });
    expect(receiver.requests[0]?.version).toBe("1.1");
    expect(line.targets[0]?.alpn).toBeUndefined();
  });

  it("do not fail at a receiver that speaks HTTP/2 alone", async () => {
    await using receiver = await startHttp2Receiver({ allowHTTP1: false });
    await using line = await open();
    expect(await to(line, receiver)()).toMatchObject({ status: 200 });
  });

  it("are no more at once than the receiver takes: the rest has connections of its own", async () => {
    const held: Http2ServerResponse[] = [];
    await using receiver = await startHttp2Receiver({
      maxConcurrentStreams: 2,
      answer: (_, response) => void held.push(response),
    });
    await using line = await open();
    const send = to(line, receiver);
    const all = Array.from({ length: 7 }, () => send());
    await receiver.until(() => held.length === 7);
    for (const response of held) response.writeHead(200).end();
    for (const one of await Promise.all(all)) expect(one).toMatchObject({ status: 200 });
    const counts = Object.values(Object.groupBy(connectionsOf(receiver), String)).map((same) => same?.length ?? 0);
    expect(Math.max(...counts)).toBe(2);
    expect(receiver.requests).toHaveLength(7);
  });

  it("that cannot be sent are an attempt that failed, and harm no other", async () => {
    await using receiver = await startHttp2Receiver();
    await using line = await open();
    const send = to(line, receiver);
    for (const name of ["connection", "bad header", "upgrade"])
      expect(await send({ headers: { [name]: "x" } })).toMatchObject({ kind: "error", error: "protocol" });
    expect(await send()).toMatchObject({ status: 200 });
    expect(receiver.connections()).toBe(1);
  });

  it("that wait for a connection which fails go on by themselves", async () => {
    let tries = 0;
    await using receiver = await startHttp2Receiver();
    await using line = await openHttps({
      options: { http2: true },
      guard: {
        resolver: () => Promise.resolve(++tries === 1 ? [] : ["127.0.0.1"]),
        allow: ["127.0.0.1:*", "receiver.example.com:*"],
      },
    });
    const url = `https://receiver.example.com:${receiver.port}/`;
    const all = await Promise.all(Array.from({ length: 4 }, () => line.send({ url })));
    // The first one has no address; the others reach a server whose certificate has another name.
    expect(all.map((one) => one.kind === "error" && one.error)).toEqual(["dns", "tls", "tls", "tls"]);
  });
});

describe("connections", () => {
  it("carry access tokens, and those are asked for over HTTP/2 as well", async () => {
    await using endpoint = await startHttp2Receiver({
      answer: (_, response) =>
        void response.writeHead(200).end(JSON.stringify({ access_token: "the-token", expires_in: 60 })),
    });
    await using receiver = await startHttp2Receiver();
    await using line = await open();
    const credentials = { oauth2: { tokenUrl: endpoint.url("/token"), clientId: "a", clientSecret: "b" } };
    await Promise.all(Array.from({ length: 5 }, () => to(line, receiver)({ credentials })));
    expect(endpoint.requests.map(({ version, headers }) => [version, headers["content-type"]])).toEqual([
      ["2.0", "application/x-www-form-urlencoded"],
    ]);
    expect(receiver.requests.map(({ headers }) => headers["authorization"])).toEqual(Array(5).fill("Bearer the-token"));
    expect(receiver.connections()).toBe(1);
  });

  it("go through the proxy", async () => {
    await using proxy = await startProxy();
    await using receiver = await startHttp2Receiver();
    await using line = await open({ proxy: `http://127.0.0.1:${proxy.port}` });
    const send = to(line, receiver);
    for (const one of await Promise.all([send(), send(), send()])) expect(one).toMatchObject({ status: 200 });
    expect(proxy.asked.map(({ authority }) => authority)).toEqual([`127.0.0.1:${receiver.port}`]);
    expect(receiver.requests.map(({ version }) => version)).toEqual(["2.0", "2.0", "2.0"]);
  });

  it("are checked again when they are old, while what is under way goes on", async () => {
    const real = systemClock();
    let later = 0;
    const clock: Clock = { ...real, monotonic: () => real.monotonic() + later };
    const held: Http2ServerResponse[] = [];
    await using receiver = await startHttp2Receiver({
      answer: (_, response, index) => void (index === 0 ? held.push(response) : response.writeHead(200).end()),
    });
    await using line = await open({}, clock);
    const send = to(line, receiver);
    const slow = send({ timeoutMs: 600_000 });
    await receiver.until(() => held.length === 1);
    later = 59_000;
    await send();
    later = 61_000;
    await send();
    held[0]?.writeHead(202).end();
    expect(await slow).toMatchObject({ status: 202 });
    await send();
    expect(connectionsOf(receiver)).toEqual([1, 1, 2, 2]);
    await receiver.until(() => receiver.open() === 1);
  });

  it("are closed when they are idle for long enough", async () => {
    const clock = testClock();
    await using receiver = await startHttp2Receiver();
    await using line = await open({ keepAliveMs: 4_000 }, clock);
    const send = to(line, receiver);
    await send();
    await clock.advance(3_000);
    await send();
    await clock.advance(3_000);
    expect(receiver.open()).toBe(1);
    await clock.advance(2_000);
    await receiver.until(() => receiver.open() === 0);
    expect(receiver.connections()).toBe(1);
  });

  it("resume the TLS session of an earlier one", async () => {
    await using receiver = await startHttp2Receiver();
    await using line = await open();
    await to(line, receiver)();
    receiver.goAway();
    await receiver.until(() => receiver.open() === 0);
    await to(line, receiver)();
    expect(receiver.requests.map(({ connection, resumed }) => [connection, resumed])).toEqual([
      [1, false],
      [2, true],
    ]);
  });
});

describe("an end in mid-stream", () => {
  const hang: Answer = () => undefined;

  it("of the receiver is a reset for all requests of the connection, and none is sent again", async () => {
    await using receiver = await startHttp2Receiver({
      answer: (_, response, i) => (i < 5 ? hang : reply(200))(_, response, i),
    });
    await using line = await open();
    const send = to(line, receiver);
    const all = Array.from({ length: 5 }, () => send());
    await receiver.until(() => receiver.requests.length === 5);
    receiver.drop();
    for (const one of await Promise.all(all))
      expect(one).toEqual({
        kind: "error",
        error: "reset",
        detail: "the connection was closed before a complete response",
      });
    expect(await send()).toMatchObject({ status: 200 });
    expect(receiver.requests).toHaveLength(6);
  });

  it("of one attempt is no end of the others", async () => {
    const held: Http2ServerResponse[] = [];
    await using receiver = await startHttp2Receiver({ answer: (_, response) => void held.push(response) });
    await using line = await open();
    const send = to(line, receiver);
    const control = new AbortController();
    const slow = send({ timeoutMs: 20_000 });
    await receiver.until(() => held.length === 1);
    const gone = send({}, control.signal);
    await receiver.until(() => held.length === 2);
    control.abort(new Error("gone"));
    await expect(gone).rejects.toThrow("gone");
    await receiver.until(() => receiver.aborted() === 1);
    held[0]?.writeHead(202).end();
    expect(await slow).toMatchObject({ status: 202 });
  });
});
