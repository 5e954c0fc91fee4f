// The gateway's bodies: both stream, either side may leave, and nothing takes longer or weighs more than it may.
import { connect } from "node:net";
import type { Socket } from "node:net";
import { request } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { turn } from "../support/clock.ts";
import { head, sendRaw, startBehind, startGateway, startTcp, startUpstream, statusOf } from "../support/gateway.ts";
import { until } from "../support/until.ts";

const KEY = { "X-API-Key": "key-a" };
const MIB = 1_048_576;

describe("bodies", () => {
  it("go through as they come, in both directions, before either is whole", async () => {
    const { promise: reached, resolve } = Promise.withResolvers<[IncomingMessage, ServerResponse]>();
    await using gateway = await startBehind({}, undefined, (req, res) => {
      resolve([req, res]);
      return true;
    });
    const req = request({ port: gateway.port, method: "POST", path: "/v1/qr/create", headers: KEY, agent: false });
    const answered = new Promise<IncomingMessage>((got) => void req.on("response", got));
    req.write("first ");
    const [there, back] = await reached;
    const arrived: string[] = [];
    there.setEncoding("utf8").on("data", (text: string) => arrived.push(text));
    await until(() => arrived.join("") === "first ");
    back.write("answer ");
    const got = await answered;
    const came: string[] = [];
    got.setEncoding("utf8").on("data", (text: string) => came.push(text));
    await until(() => came.join("") === "answer ");
    req.write("second ");
    await until(() => arrived.join("") === "first second ");
    back.write("goes on");
    await until(() => came.join("") === "answer goes on");
    req.end("third");
    await new Promise((ended) => void there.on("end", ended));
    back.end();
    await new Promise((ended) => void got.on("end", ended));
    expect([arrived.join(""), came.join("")]).toEqual(["first second third", "answer goes on"]);
  });

  it("are held back by who reads slower, so that the relay holds little of them", async () => {
    let written = 0;
    const block = Buffer.alloc(65_536);
    await using gateway = await startBehind({}, (_req, res) => {
      const write = (): void => {
        while (written < 64 * MIB) {
          written += block.length;
          if (!res.write(block)) return void res.once("drain", write);
        }
        res.end();
      };
      write();
    });
    const req = request({ port: gateway.port, path: "/v1/qr", headers: KEY, agent: false });
    const answered = new Promise<IncomingMessage>((got) => void req.on("response", got));
    req.end();
    const got = await answered;
    // Nobody reads: what is written stops growing at what sockets and streams hold.
    let before = -1;
    for (let same = 0; same < 200; same = before === written ? same + 1 : 0) {
      before = written;
      await turn();
    }
    expect(written).toBeLessThan(32 * MIB);
    let size = 0;
    for await (const chunk of got) size += (chunk as Buffer).length;
    expect(size).toBe(64 * MIB);
  });

  it("of a request are at most 1 MiB, announced or not", async () => {
    await using gateway = await startBehind({}, (_req, res, { body }) => void res.end(String(body.length)));
    const whole = await gateway.ask("POST", "/v1/qr/create", KEY, Buffer.alloc(MIB));
    expect([whole.status, whole.body.toString()]).toEqual([200, String(MIB)]);
    const announced = await gateway.ask("POST", "/v1/qr/create", KEY, Buffer.alloc(MIB + 1));
    expect([announced.status, announced.json.code, announced.headers["x-burst-remaining"]]).toEqual([
      413,
      "PAYLOAD_TOO_LARGE",
      "1",
    ]);
    const chunked = await gateway.ask(
      "POST",
      "/v1/qr/create",
      { ...KEY, "Transfer-Encoding": "chunked" },
      Buffer.alloc(2 * MIB),
    );
    expect([chunked.status, chunked.json.code, chunked.headers["x-burst-remaining"]]).toEqual([
      413,
      "PAYLOAD_TOO_LARGE",
      "0",
    ]);
    expect(gateway.upstream.seen).toHaveLength(1);
  });

  it("that are not wanted do not keep an early answer from its client", async () => {
    await using gateway = await startBehind({}, undefined, (_req, res) => {
      res.writeHead(401).end("no");
      return true;
    });
    for (let i = 0; i < 3; i++) {
      const got = await gateway.ask("POST", "/v1/qr/create", KEY, Buffer.alloc(MIB));
      expect([got.status, got.body.toString()]).toEqual([401, "no"]);
    }
  });

  it("of a DELETE end with their connection, so that a careless upstream finds no request in them", async () => {
    await using gateway = await startBehind();
    const body = "GET /v1/account/me HTTP/1.1\r\n\r\n";
    const headers = { ...KEY, "Content-Length": String(body.length) };
    await gateway.ask("DELETE", "/v1/qr/a", headers, body);
    await gateway.ask("DELETE", "/v1/qr/a", KEY);
    await gateway.ask("GET", "/v1/qr", KEY);
    expect(gateway.upstream.seen.map(({ headers }) => headers.connection)).toEqual([
      "close",
      "keep-alive",
      "keep-alive",
    ]);
    expect(gateway.upstream.connections()).toBe(2);
  });
});

describe("the line to the upstream", () => {
  const from = (n: number): string => `X-Forwarded-For: 2001:db8:0:${n.toString(16)}::1`;
  const stalled = (port: number, address: string): Promise<Socket> =>
    new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1").on("error", () => undefined);
      const lines = ["POST /v1/qr/create HTTP/1.1", "Host: x", "Content-Length: 100", address];
      socket.write(`${head(lines)}x`, () => resolve(socket));
    });
  const rows = { "POST /v1/qr/create": { perMinute: 100_000, per5s: 100_000 }, "GET /v1/qr": false } as const;
  const open = async () => {
    const upstream = await startUpstream();
    const gateway = await startGateway({ upstream: upstream.url, trustedProxies: ["127.0.0.1"], rows });
    return { upstream, gateway };
  };

  it.each([
    ["one address", () => from(1)],
    ["as many addresses", (n: number) => from(100 + n)],
  ])("is kept from nobody by 200 uploads of one byte from %s", async (_, address) => {
    const { upstream, gateway } = await open();
    const sockets = await Promise.all(Array.from({ length: 200 }, (__, n) => stalled(gateway.port, address(n))));
    await until(() => upstream.connections() >= 16);
    const got = await Promise.all(
      Array.from({ length: 40 }, (__, n) => {
        const headers = { ...KEY, "X-API-Key": `calm-${n}`, "X-Forwarded-For": `192.0.2.${n}` };
        return gateway.ask("POST", "/v1/qr/create", headers, "{}");
      }),
    );
    expect(new Set(got.map(({ status }) => status))).toEqual(new Set([200]));
    // One that was slow, and waited without a place, gets one when its body is there.
    const last = sockets.at(-1) as Socket;
    let heard = "";
    last.on("data", (part: Buffer) => (heard += part.toString()));
    if (address(1) !== address(2)) {
      last.write("y".repeat(99));
      await until(() => heard !== "");
      expect(statusOf(heard)).toBe(200);
    }
    for (const socket of sockets) socket.destroy();
    await gateway[Symbol.asyncDispose]();
    await upstream[Symbol.asyncDispose]();
  });

  it("takes any number of bodies from one caller that are read first, each after the other", async () => {
    await using upstream = await startUpstream();
    const limits = { concurrency: 2, trustedProxies: ["127.0.0.1"], rows };
    await using gateway = await startGateway({ upstream: upstream.url, ...limits });
    const slow = await stalled(gateway.port, from(1));
    await until(() => upstream.connections() >= 1);
    // They hold, while they wait, 32 MiB in all, and a third of what is free for one caller.
    const headers = { ...KEY, "X-Forwarded-For": "192.0.2.1" };
    for (let n = 0; n < 16; n++) {
      const got = await gateway.ask("POST", "/v1/qr/create", headers, "x".repeat(MIB));
      expect(got.status).toBe(200);
    }
    slow.destroy();
  });

  it("has an eighth of its places for one key, and for one address", async () => {
    const waiting: ServerResponse[] = [];
    await using gateway = await startBehind({ trustedProxies: ["127.0.0.1"], rows: { "POST /v1/qr/create": rows["POST /v1/qr/create"] } }, (_req, res) => void waiting.push(res)); // prettier-ignore
    const asked = (key: string, address: string) =>
      gateway.ask("POST", "/v1/qr/create", { "X-API-Key": key, "X-Forwarded-For": address });
    const same = Array.from({ length: 16 }, (_, n) => asked("one key", `192.0.2.${n}`));
    await until(() => waiting.length === 16);
    expect((await asked("one key", "198.51.100.1")).json.code).toBe("PROVIDER_BACKPRESSURE");
    const near = Array.from({ length: 16 }, (_, n) => asked(`key ${n}`, "203.0.113.1"));
    await until(() => waiting.length === 32);
    expect((await asked("key 99", "203.0.113.1")).json.code).toBe("PROVIDER_BACKPRESSURE");
    const free = asked("another", "198.51.100.2");
    await until(() => waiting.length === 33);
    for (const res of waiting) res.end("{}");
    expect(new Set((await Promise.all([...same, ...near, free])).map(({ status }) => status))).toEqual(new Set([200]));
    const again = asked("one key", "203.0.113.1");
    await until(() => waiting.length === 34);
    waiting[33]?.end("{}");
    expect((await again).status).toBe(200);
  });
});

describe("a client that leaves", () => {
  it("in the middle of its body ends the request to the upstream", async () => {
    const { promise: reached, resolve } = Promise.withResolvers<IncomingMessage>();
    await using gateway = await startBehind({}, undefined, (req) => {
      resolve(req);
      return true;
    });
    const socket = connect(gateway.port, "127.0.0.1");
    socket.write(`${head(["POST /v1/qr/create HTTP/1.1", "Host: x", "Content-Length: 100"])}only this`);
    const there = await reached;
    const cut = new Promise((cutOff) => void there.on("error", cutOff));
    there.resume();
    socket.destroy();
    await cut;
  });

  it("while the upstream thinks, or answers, ends that too, and gives its place in the line back", async () => {
    const open: ServerResponse[] = [];
    await using gateway = await startBehind({ concurrency: 1 }, (req, res) => {
      open.push(res);
      if (req.url === "/v1/qr") res.write("half ");
    });
    for (const path of ["/v1/scopes", "/v1/qr"]) {
      const socket = connect(gateway.port, "127.0.0.1");
      const got: Buffer[] = [];
      socket.on("data", (bytes: Buffer) => got.push(bytes)).on("error", () => undefined);
      socket.write(head([`GET ${path} HTTP/1.1`, "Host: x"]));
      await until(() => open.length > 0 && (path === "/v1/scopes" || Buffer.concat(got).includes("half")));
      const closed = new Promise((gone) => void open[0]?.on("close", gone));
      socket.destroy();
      await closed;
      open.length = 0;
    }
    const next = gateway.ask("GET", "/v1/transactions", KEY);
    await until(() => open.length > 0);
    open[0]?.end("done");
    expect((await next).body.toString()).toBe("done");
  });
});

describe("an upstream", () => {
  it("that cannot be reached is 502 at once, and costs nothing", async () => {
    const { url } = await (async () => {
      await using gone = await startUpstream();
      return gone;
    })();
    await using gateway = await startGateway({ upstream: url });
    for (let i = 0; i < 4; i++) {
      const got = await gateway.ask("POST", "/v1/withdraw/create", KEY, "{}");
      expect([
        got.status,
        got.json.code,
        got.headers["x-ratelimit-remaining"],
        got.headers["x-burst-remaining"],
      ]).toEqual([502, "UPSTREAM_UNAVAILABLE", "6", "2"]);
    }
    expect(gateway.log.lines.some(({ message }) => message === "the upstream did not answer")).toBe(true);
  });

  it("that never answers is given up after 30 s, and costs nothing", async () => {
    const { promise: reached, resolve } = Promise.withResolvers<void>();
    await using upstream = await startTcp((socket) => socket.on("data", () => resolve()));
    await using gateway = await startGateway({ upstream: upstream.url });
    const asked = gateway.ask("GET", "/v1/qr", KEY);
    await reached;
    await gateway.clock.advance(29_999);
    await gateway.clock.advance(1);
    const got = await asked;
    expect([got.status, got.json.code, got.headers["x-ratelimit-remaining"]]).toEqual([
      502,
      "UPSTREAM_UNAVAILABLE",
      "30",
    ]);
  });

  it("that drips its answer is cut off after 30 s, so that nobody takes half of it for all", async () => {
    const { promise: reached, resolve } = Promise.withResolvers<ServerResponse>();
    await using gateway = await startBehind({}, (_req, res) => {
      res.write("drip");
      resolve(res);
    });
    const asked = gateway.ask("GET", "/v1/qr", KEY).then(
      () => "whole",
      (error: Error) => error.message,
    );
    const res = await reached;
    const closed = new Promise((gone) => void res.on("close", gone));
    await until(() => gateway.clock.sleeping().length > 0);
    for (let i = 0; i < 20; i++) await turn();
    await gateway.clock.advance(30_000);
    expect(await asked).toBe("aborted");
    await closed;
  });

  it("that breaks off in the middle is seen to have broken off", async () => {
    for (const [length, cut] of [
      ["Content-Length: 100", "half"],
      ["Transfer-Encoding: chunked", "4\r\nhalf\r\n"],
    ]) {
      await using upstream = await startTcp((socket) =>
        socket.on("data", () => socket.end(`HTTP/1.1 200 OK\r\n${length}\r\n\r\n${cut}`)),
      );
      await using gateway = await startGateway({ upstream: upstream.url });
      await expect(gateway.ask("GET", "/v1/qr", KEY), length).rejects.toThrow("aborted");
    }
  });

  it("keeps its connections, and one that it has just closed is replaced without the client noticing", async () => {
    const sockets: Socket[] = [];
    let asked = 0;
    await using upstream = await startTcp((socket) => {
      sockets.push(socket);
      let first = true;
      socket.on("data", () => {
        asked++;
        if (first) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        // The second request meets a connection that is being closed.
        else socket.destroy();
        first = false;
      });
    });
    await using gateway = await startGateway({ upstream: upstream.url });
    for (let i = 0; i < 4; i++) {
      const got = await gateway.ask("GET", "/v1/scopes", KEY);
      expect([got.status, got.body.toString()]).toEqual([200, "ok"]);
    }
    expect([sockets.length, asked]).toEqual([4, 7]);
    // A request that may change something is never sent twice.
    const before = asked;
    const post = await gateway.ask("POST", "/v1/qr/create", KEY);
    expect([post.status, asked - before]).toEqual([502, 1]);
  });

  it.each(["103 Early Hints\r\nLink: </a>", "100 Continue", "100 Continue\r\nX: y\r\n\r\nHTTP/1.1 102 Processing"])(
    "sends what it sends before its answer in vain: %s",
    async (before) => {
      const heard: string[] = [];
      const text = `HTTP/1.1 ${before}\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nand the rest`;
      await using upstream = await startTcp((socket) => {
        let pieces = 0;
        socket.on("data", (bytes: Buffer) => {
          heard.push(bytes.toString("latin1").split(" ", 1)[0] as string);
          // Once in one go, then cut at an odd place.
          const cut = pieces++ * 5;
          socket.write(text.slice(0, cut));
          setTimeout(() => socket.write(text.slice(cut)), 20);
        });
      });
      await using gateway = await startGateway({ upstream: upstream.url });
      for (const method of ["POST", "POST", "GET", "POST"]) {
        const path = method === "GET" ? "/v1/qr" : "/v1/qr/create";
        const lines = [`${method} ${path} HTTP/1.1`, "Host: x", "Connection: close", "Content-Length: 0"];
        const answer = await sendRaw(gateway.port, head(lines));
        expect([statusOf(answer), answer.split("\r\n\r\n").slice(1).join("|")]).toEqual([
          200,
          "HTTP/1.1 100 Continue|and the rest",
        ]);
      }
      expect(heard).toEqual(["POST", "POST", "GET", "POST"]);
    },
  );

  it("answers an HTTP/1.0 client too", async () => {
    await using gateway = await startBehind({}, (_req, res) => {
      res.write("streamed ");
      res.end("text");
    });
    const answer = await sendRaw(gateway.port, head(["GET /v1/qr HTTP/1.0"]));
    expect([statusOf(answer), answer.includes("chunked"), answer.endsWith("\r\n\r\nstreamed text")]).toEqual([
      200,
      false,
      true,
    ]);
  });
});
