/** The https transport keeps its promises over HTTP/1.1 and over HTTP/2 alike, on real TLS. */
import { X509Certificate } from "node:crypto";
import type { Http2ServerResponse } from "node:http2";
import { describe, expect, it } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { Reply } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import type { HttpsOptions } from "../../plugins/transport/https.ts";
import { describeTransport, type FarSide } from "../conformance/transport.ts";
import { clientCertificate } from "../support/certificates.ts";
import { startHttp2Receiver, type Http2Receiver, type Http2ReceiverOptions } from "../support/http2-receiver.ts";
import { openHttps, type HttpsLine } from "../support/https.ts";

const connectionsOf = ({ requests }: Http2Receiver): readonly number[] => requests.map(({ connection }) => connection);

describe.each([
  ["HTTP/1.1", false],
  ["HTTP/2", true],
] as const)("over %s", (_, http2) => {
  interface Stage extends AsyncDisposable {
    readonly receiver: Http2Receiver;
    readonly line: HttpsLine;
    readonly send: HttpsLine["send"];
  }

  /** A receiver of both versions, and a transport that sends to it unless told otherwise. */
  async function facing(
    given: { readonly receiving?: Http2ReceiverOptions; readonly options?: HttpsOptions; readonly clock?: Clock } = {},
  ): Promise<Stage> {
    const receiver = await startHttp2Receiver(given.receiving);
    const line = await openHttps({ ...given, options: { http2, ...given.options } });
    return {
      receiver,
      line,
      send: (over, signal) => line.send({ url: receiver.url(), ...over }, signal),
      async [Symbol.asyncDispose]() {
        await line.transport.dispose();
        await receiver[Symbol.asyncDispose]();
      },
    };
  }

  describe("the law of transports:", () => {
    describeTransport(it, {
      async open() {
        let does: FarSide = { do: "answer", status: 200 };
        const gathered: (() => void)[] = [];
        function answer(response: Http2ServerResponse): void {
          const now = does;
          switch (now.do) {
            case "answer":
              response.writeHead(now.status, now.retryAfter === undefined ? {} : { "retry-after": now.retryAfter });
              return void response.end(now.body ?? "");
            case "cut":
              return stage.receiver.drop();
            case "drip": {
              response.writeHead(200);
              const timer = setInterval(() => void response.write("a"), 10);
              return void response.on("close", () => clearInterval(timer));
            }
            case "garble":
              // As a server does whose client broke the protocol: nothing but words, and no answer.
              if (http2) return response.stream.close(1);
              return void response.socket.write("HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n");
            case "gather":
              gathered.push(() => response.writeHead(200).end());
              return gathered.length === now.count ? gathered.forEach((go) => go()) : undefined;
            case "hang":
          }
        }
        const stage = await facing({ receiving: { answer: (_, response) => answer(response) } });
        const { receiver, line } = stage;
        return {
          transport: line.transport,
          url: receiver.url(),
          nowhere: "https://127.0.0.1:1/",
          far: (next) => void (does = next),
          async arrived(count) {
            await receiver.until(() => receiver.requests.length >= count);
            return receiver.requests;
          },
          [Symbol.asyncDispose]: () => stage[Symbol.asyncDispose](),
        };
      },
    });
  });

  describe("requests", () => {
    it("are POSTs with the path and query of the URL, its headers and its body", async () => {
      await using stage = await facing();
      const { receiver, send } = stage;
      const body = Buffer.from([0, 1, 2, 0xff]);
      const headers = { "Content-Type": "application/json", "webhook-id": "evt_1", "X-Relay-Event": "a:b" };
      const url = receiver.url("/a%20b?c=%2F&d");
      expect(await send({ url, headers, body })).toMatchObject({ status: 200 });
      expect(await send({ body: new Uint8Array(0) })).toMatchObject({ status: 200 });
      const [first, second] = receiver.requests;
      expect(first).toMatchObject({ method: "POST", path: "/a%20b?c=%2F&d", body, version: http2 ? "2.0" : "1.1" });
      expect(first).toMatchObject({ host: `127.0.0.1:${receiver.port}` });
      expect(first?.headers).toMatchObject({
        ...{ "content-type": "application/json", "webhook-id": "evt_1", "x-relay-event": "a:b" },
        "content-length": "4",
      });
      expect(first?.headers).not.toHaveProperty("transfer-encoding");
      expect(second?.headers).toMatchObject({ "content-length": "0" });
    });

    it("are answered with what the receiver says of its deliveries", async () => {
      const said = { "webhook-delivery": "disable", "retry-after": "60" };
      await using stage = await facing({
        receiving: { answer: (_, response) => void response.writeHead(503, said).end() },
      });
      expect(await stage.send({})).toMatchObject({ status: 503, control: "disable", retryAfter: "60" });
    });

    it("whose connection opens after their deadline, while no timer could run, are not sent", async () => {
      const clock = { ...systemClock() };
      await using stage = await facing({ clock });
      const { receiver, send } = stage;
      const all = [send({ timeoutMs: 60_000 }), send({ timeoutMs: 5_000 })];
      // As after a SIGSTOP: by the clock the time of the second is over, and no timer has run yet.
      const { monotonic } = clock;
      clock.monotonic = () => monotonic() + 6_000;
      expect(await Promise.all(all)).toMatchObject([{ status: 200 }, { error: "timeout" }]);
      expect(receiver.requests).toHaveLength(1);
    });

    it("without a connection at their deadline say so", async () => {
      const guard = { resolver: () => new Promise<never>(() => undefined) };
      await using line = await openHttps({ options: { http2 }, guard });
      const send = () => line.send({ url: "https://slow.example.com/", timeoutMs: 150 });
      const timeout = { kind: "error", error: "timeout", detail: "no connection within 150 ms" };
      expect(await Promise.all([send(), send()])).toEqual([timeout, timeout]);
    });

    it("whose answer ends in mid-stream have the status for an answer", async () => {
      await using stage = await facing({
        receiving: {
          answer(_, response) {
            response.writeHead(201);
            response.write("half");
            setTimeout(() => stage.receiver.drop(), 100);
          },
        },
      });
      expect(await stage.send({})).toMatchObject({ kind: "response", status: 201, truncated: true });
    });
  });

  describe("connections", () => {
    it("are of one subscription where that has a client certificate of its own", async () => {
      await using stage = await facing({ receiving: { clients: true } });
      const { receiver, send } = stage;
      const [one, two] = [await clientCertificate(), await clientCertificate()];
      for (let i = 0; i < 3; i++) {
        await send({ subscriptionId: "sub_1", credentials: { clientCertificate: one } });
        await send({ subscriptionId: "sub_2", credentials: { clientCertificate: two } });
      }
      expect(await send({ subscriptionId: "sub_3" })).toMatchObject({ kind: "error" });
      const shown = [one, two].map(({ cert }) => new X509Certificate(cert).fingerprint256);
      expect(receiver.requests.map(({ client }) => client)).toEqual([...shown, ...shown, ...shown]);
      expect(connectionsOf(receiver)).toEqual([1, 2, 1, 2, 1, 2]);
    });

    it("are left behind with the old certificate or origin", async () => {
      await using stage = await facing();
      const { receiver, send } = stage;
      const url = `https://localhost:${receiver.port}/`;
      for (const over of [{}, { url }, {}, { credentials: { clientCertificate: await clientCertificate() } }])
        expect(await send(over)).toMatchObject({ status: 200 });
      expect(connectionsOf(receiver)).toEqual([1, 2, 3, 4]);
      await receiver.until(() => receiver.open() === 1);
    });

    it("are checked again when they are old", async () => {
      const real = systemClock();
      let later = 0;
      const clock: Clock = { ...real, monotonic: () => real.monotonic() + later };
      await using stage = await facing({ clock });
      const { receiver, send } = stage;
      for (const at of [0, 59_000, 61_000]) {
        later = at;
        await send({});
      }
      expect(connectionsOf(receiver)).toEqual([1, 1, 2]);
      expect(stage.line.targets).toHaveLength(2);
      await receiver.until(() => receiver.open() === 1);
    });

    it("beyond the limit of idle ones are closed", async () => {
      await using stage = await facing({ options: { maxIdle: 2 } });
      const { receiver, send } = stage;
      for (const keyId of ["a", "b", "c", "a", "c"]) await send({ keyId, subscriptionId: `sub_${keyId}` });
      expect(connectionsOf(receiver)).toEqual([1, 2, 3, 4, 3]);
    });

    it("of a subscription that is gone are closed, once what is under way has ended", async () => {
      const held: Http2ServerResponse[] = [];
      await using stage = await facing({ receiving: { answer: (_, response) => void held.push(response) } });
      const { receiver, line, send } = stage;
      const sending = send({});
      await receiver.until(() => held.length === 1);
      line.transport.forget?.("sub_1");
      expect(receiver.open()).toBe(1);
      held[0]?.writeHead(200).end();
      expect(await sending).toMatchObject({ status: 200 });
      await receiver.until(() => receiver.open() === 0);
    });

    it("that were closed while idle are replaced", async () => {
      await using stage = await facing();
      const { receiver, send } = stage;
      for (let i = 0; i < 10; i++) {
        expect(await send({})).toMatchObject({ status: 200 });
        if (i % 2 === 0 || !http2) receiver.drop();
        else receiver.goAway();
        await receiver.until(() => receiver.open() === 0);
      }
      expect(connectionsOf(receiver)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    });

    it("that are closed just as requests are written end in an answer or a reset, and nothing arrives twice", async () => {
      await using stage = await facing();
      const { receiver, send } = stage;
      const fine = (one: Reply): void =>
        expect(one).toMatchObject(one.kind === "response" ? { status: 200 } : { error: "reset" });
      for (let i = 0; i < 50; i++) {
        if (i % 2 === 0 || !http2) receiver.drop();
        else receiver.goAway();
        const bodies = [Buffer.from(`${i}a`), Buffer.from(`${i}b`)];
        for (const one of await Promise.all(bodies.map((body) => send({ body })))) fine(one);
      }
      const bodies = receiver.requests.map(({ body }) => body.toString());
      expect(new Set(bodies).size).toBe(bodies.length);
    });

    it("end with the transport: what is under way then is our own fault, not the receiver's", async () => {
      await using stage = await facing({ receiving: { answer: () => undefined } });
      const { receiver, line, send } = stage;
      const all = [send({}), send({})];
      await receiver.until(() => receiver.requests.length === 2);
      const ended = Promise.all(all.map((one) => expect(one).rejects.toThrow()));
      await line.transport.dispose();
      await ended;
      await expect(send({})).rejects.toThrow("closed");
      await receiver.until(() => receiver.open() === 0);
    });

    it("that are not there yet end with the transport too", async () => {
      const guard = { resolver: () => new Promise<never>(() => undefined) };
      const line = await openHttps({ options: { http2 }, guard });
      const all = Array.from({ length: 3 }, () => line.send({ url: "https://slow.example.com/", timeoutMs: 60_000 }));
      const ended = Promise.all(all.map((one) => expect(one).rejects.toThrow()));
      await line.transport.dispose();
      await ended;
    });
  });
});
