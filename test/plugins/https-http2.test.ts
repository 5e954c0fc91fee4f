/** The https transport over HTTP/2, against Node's own server: many attempts of a key on one connection. */
import { X509Certificate } from "node:crypto";
import type { Http2ServerResponse } from "node:http2";
import { describe, expect, it } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { Reply, TransportRequest } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import type { HttpsOptions } from "../../plugins/transport/https.ts";
import { describeTransport } from "../conformance/transport.ts";
import type { FarSide } from "../conformance/transport.ts";
import { clientCertificate } from "../support/certificates.ts";
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

describe("the law of transports", () => {
  describeTransport(it, {
    open: async () => {
      let does: FarSide = { do: "answer", status: 200 };
      const gathered: (() => void)[] = [];
      const receiver = await startHttp2Receiver({
        answer: (_, response) => {
          const now = does;
          switch (now.do) {
            case "answer":
              response.writeHead(now.status, now.retryAfter === undefined ? {} : { "retry-after": now.retryAfter });
              return void response.end(now.body ?? "");
            case "cut":
              return receiver.drop();
            case "drip": {
              response.writeHead(200);
              const timer = setInterval(() => void response.write("a"), 10);
              return void response.on("close", () => clearInterval(timer));
            }
            case "garble":
              // As a server does whose client broke the protocol: nothing but words, and no answer.
              return response.stream.close(1);
            case "gather":
              gathered.push(() => response.writeHead(200).end());
              return gathered.length === now.count ? gathered.forEach((go) => go()) : undefined;
            case "hang":
          }
        },
      });
      const line = await open();
      return {
        transport: line.transport,
        url: receiver.url(),
        nowhere: "https://127.0.0.1:1/",
        far: (next) => {
          does = next;
        },
        arrived: async (count) => {
          await receiver.until(() => receiver.requests.length >= count);
          return receiver.requests;
        },
        [Symbol.asyncDispose]: async () => {
          await line.transport.dispose();
          await receiver[Symbol.asyncDispose]();
        },
      };
    },
  });
});

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

  it("are POSTs with the path and query of the URL, its headers and its body", async () => {
    await using receiver = await startHttp2Receiver();
    await using line = await open();
    const body = Buffer.from([0, 1, 2, 0xff]);
    const headers = { "Content-Type": "application/json", "webhook-id": "evt_1", "X-Relay-Event": "a:b" };
    expect(await to(line, receiver)({ url: receiver.url("/a%20b?c=%2F&d"), headers, body })).toMatchObject({
      status: 200,
    });
    expect(await to(line, receiver)({ body: new Uint8Array(0) })).toMatchObject({ status: 200 });
    expect(receiver.requests[0]).toMatchObject({
      method: "POST",
      path: "/a%20b?c=%2F&d",
      body,
      host: `127.0.0.1:${receiver.port}`,
    });
    expect(receiver.requests[0]?.headers).toMatchObject({
      "content-type": "application/json",
      "webhook-id": "evt_1",
      "x-relay-event": "a:b",
      "content-length": "4",
    });
    expect(receiver.requests[1]?.headers).toMatchObject({ "content-length": "0" });
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

  it("that waited until after their deadline, while no timer could run, are not sent", async () => {
    const clock = { ...systemClock() };
    await using receiver = await startHttp2Receiver();
    await using line = await open({}, clock);
    const send = to(line, receiver);
    const all = [send({ timeoutMs: 60_000 }), send({ timeoutMs: 5_000 })];
    // As after a SIGSTOP: by the clock the time of the second is over, and no timer has run yet.
    const { monotonic } = clock;
    clock.monotonic = () => monotonic() + 6_000;
    expect(await Promise.all(all)).toMatchObject([{ status: 200 }, { error: "timeout" }]);
    expect(receiver.requests).toHaveLength(1);
  });

  it("that wait for a connection say so when their time is over", async () => {
    await using line = await openHttps({
      options: { http2: true },
      guard: { resolver: () => new Promise(() => undefined) },
    });
    const send = () => line.send({ url: "https://slow.example.com/", timeoutMs: 150 });
    const timeout = { kind: "error", error: "timeout", detail: "no connection within 150 ms" };
    expect(await Promise.all([send(), send()])).toEqual([timeout, timeout]);
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
  it("are of one subscription, with its own client certificate", async () => {
    await using receiver = await startHttp2Receiver({ clients: true });
    await using line = await open();
    const [one, two] = [await clientCertificate(), await clientCertificate()];
    const send = to(line, receiver);
    for (let i = 0; i < 3; i++) {
      await send({ subscriptionId: "sub_1", credentials: { clientCertificate: one } });
      await send({ subscriptionId: "sub_2", credentials: { clientCertificate: two } });
    }
    expect(await send({ subscriptionId: "sub_3" })).toMatchObject({ kind: "error", error: "tls" });
    const shown = [one, two].map(({ cert }) => new X509Certificate(cert).fingerprint256);
    expect(receiver.requests.map(({ client }) => client)).toEqual([...shown, ...shown, ...shown]);
    expect(connectionsOf(receiver)).toEqual([1, 2, 1, 2, 1, 2]);
  });

  it("are left behind with the old certificate or origin", async () => {
    await using receiver = await startHttp2Receiver();
    await using line = await open();
    const send = to(line, receiver);
    const other = `https://localhost:${receiver.port}/`;
    for (const over of [{}, { url: other }, {}, { credentials: { clientCertificate: await clientCertificate() } }])
      expect(await send(over)).toMatchObject({ status: 200 });
    expect(connectionsOf(receiver)).toEqual([1, 2, 3, 4]);
    await receiver.until(() => receiver.open() === 1);
  });

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

  it("beyond the limit of idle ones are closed, whatever they speak", async () => {
    await using old = await startReceiver();
    await using receiver = await startHttp2Receiver();
    await using line = await open({ maxIdle: 2 });
    const send = to(line, receiver);
    const of = (keyId: string) => ({ keyId, subscriptionId: `sub_${keyId}` });
    await send(of("a"));
    await line.send({ url: old.url(), ...of("b") });
    await send(of("c"));
    await receiver.until(() => receiver.open() === 1);
    for (const keyId of ["c", "a"]) await send(of(keyId));
    expect(connectionsOf(receiver)).toEqual([1, 2, 2, 3]);
  });

  it("of a subscription that is gone are closed, once what is under way has ended", async () => {
    const held: Http2ServerResponse[] = [];
    await using receiver = await startHttp2Receiver({ answer: (_, response) => void held.push(response) });
    await using line = await open();
    const sending = to(line, receiver)();
    await receiver.until(() => held.length === 1);
    line.transport.forget?.("sub_1");
    expect(receiver.open()).toBe(1);
    held[0]?.writeHead(200).end();
    expect(await sending).toMatchObject({ status: 200 });
    await receiver.until(() => receiver.open() === 0);
  });

  it("that were closed while idle are replaced", async () => {
    await using receiver = await startHttp2Receiver();
    await using line = await open();
    for (let i = 0; i < 10; i++) {
      expect(await to(line, receiver)()).toMatchObject({ status: 200 });
      if (i % 2 === 0) receiver.drop();
      else receiver.goAway();
      await receiver.until(() => receiver.open() === 0);
    }
    expect(connectionsOf(receiver)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it("that are closed just as requests are written end in an answer or a reset, and nothing arrives twice", async () => {
    await using receiver = await startHttp2Receiver();
    await using line = await open();
    const send = to(line, receiver);
    for (let i = 0; i < 40; i++) {
      if (i % 2 === 0) receiver.drop();
      else receiver.goAway();
      for (const one of await Promise.all([send({ body: Buffer.from(`${i}a`) }), send({ body: Buffer.from(`${i}b`) })]))
        expect(one).toMatchObject(one.kind === "response" ? { status: 200 } : { error: "reset" });
    }
    const bodies = receiver.requests.map(({ body }) => body.toString());
    expect(new Set(bodies).size).toBe(bodies.length);
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

  it("of a body leaves the status as the answer", async () => {
    await using receiver = await startHttp2Receiver({
      answer: (_, response) => {
        response.writeHead(201);
        response.write("half");
        setTimeout(() => receiver.drop(), 100);
      },
    });
    await using line = await open();
    expect(await to(line, receiver)()).toMatchObject({ kind: "response", status: 201, truncated: true });
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

  it("of the transport is our own fault, not the receiver's", async () => {
    await using receiver = await startHttp2Receiver({ answer: hang });
    const line = await open();
    const send = to(line, receiver);
    const all = [send(), send()];
    await receiver.until(() => receiver.requests.length === 2);
    const ended = Promise.all(all.map((one) => expect(one).rejects.toThrow()));
    await line.transport.dispose();
    await ended;
    await expect(send()).rejects.toThrow("closed");
    await receiver.until(() => receiver.open() === 0);
  });

  it("of the transport reaches those that wait for a connection", async () => {
    const line = await openHttps({
      options: { http2: true },
      guard: { resolver: () => new Promise(() => undefined) },
    });
    const all = Array.from({ length: 3 }, () => line.send({ url: "https://slow.example.com/", timeoutMs: 60_000 }));
    const ended = Promise.all(all.map((one) => expect(one).rejects.toThrow()));
    await line.transport.dispose();
    await ended;
  });
});
