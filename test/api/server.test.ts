import { once } from "node:events";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Socket } from "node:net";
import { writeFile, mkdtemp, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { request as secureRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { listen } from "../../core/runtime/server.ts";
import type { Handler } from "../../core/runtime/connections.ts";
import type { Listening, Patience } from "../../core/runtime/server.ts";
import type { StartError } from "../../core/model/errors.ts";
import { loopbackCertificate, testAuthority } from "../support/certificates.ts";
import { HOOK, LIST, serve } from "./serve.ts";

const open: Listening[] = [];
const plan = { host: "127.0.0.1", port: 0, trustedProxies: [], shutdownMs: 1_000, maxConnections: 100 };
const ok: Handler = (_req, res) => void res.end("ok");

/** A certificate for loopback and its key, in files of a folder that the caller removes. */
async function certificateFiles(): Promise<{ readonly folder: string; readonly cert: string; readonly key: string }> {
  const { cert, key } = await loopbackCertificate();
  const folder = await mkdtemp(join(tmpdir(), "relay-server-"));
  const files = { folder, cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  await writeFile(files.cert, cert);
  await writeFile(files.key, key);
  return files;
}

async function start(handler = ok, over: object = {}, patience: Partial<Patience> = {}): Promise<Listening> {
  const listening = await listen(handler, { ...plan, ...over }, patience);
  open.push(listening);
  return listening;
}
afterEach(async () => {
  for (const one of open.splice(0)) await one.close(0);
});

/** Returns what came back until the connection ended, and how long that took. */
function talk(port: number, ...pieces: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    const socket: Socket = connect(port, "127.0.0.1");
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
    socket.on("error", () => {});
    socket.on("close", () => resolve(text));
    for (const piece of pieces) socket.write(piece);
  });
}

describe("a client that does not read its answer", () => {
  const large = Buffer.alloc(16 * 1_048_576, "x");

  it("is cut off after a while, and one that reads slowly or waits for its answer is not", async () => {
    const ended: string[] = [];
    const late: (() => void)[] = [];
    const { port } = await start(
      (req, res) => {
        res.once("close", () => void ended.push(req.url ?? ""));
        if (req.url === "/late") late.push(() => void res.end("at last"));
        else res.end(large);
      },
      {},
      { stalledMs: 2_000 },
    );
    const ask = (path: string): Socket => {
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
      return socket;
    };
    const deaf = ask("/deaf").pause();
    const waiting = ask("/late");
    let heard = "";
    waiting.on("data", (part: Buffer) => (heard += part.toString()));
    const slow = ask("/slow").pause();
    let read = 0;
    // Some at a time, with rests that are shorter than the server's patience.
    const sip = setInterval(() => void (read += (slow.read() as Buffer | null)?.length ?? 0), 5);
    await expect.poll(() => ended, { timeout: 60_000 }).toContain("/deaf");
    expect(ended).not.toContain("/late");
    for (const answer of late) answer();
    await expect.poll(() => heard, { timeout: 60_000 }).toContain("at last");
    await expect.poll(() => read, { timeout: 60_000 }).toBeGreaterThan(large.length);
    clearInterval(sip);
    for (const socket of [deaf, waiting, slow]) socket.destroy();
  });
});

describe("listening", () => {
  it("is at the very address that was asked for, or not at all", async () => {
    const { port, address, url } = await start();
    expect([address, url]).toEqual(["127.0.0.1", `http://127.0.0.1:${port}`]);
    const error = (await listen(ok, { ...plan, port }).catch((reason: unknown) => reason)) as StartError;
    expect([error.name, error.exitCode]).toEqual(["StartError", 69]);
    expect(error.message).toContain(`127.0.0.1:${port}`);
  });

  it.each(["192.0.2.1", "no.such.host.invalid"])("at %s fails with 69", async (host) => {
    const error = (await listen(ok, { ...plan, host }).catch((reason: unknown) => reason)) as StartError;
    expect([error.name, error.exitCode]).toEqual(["StartError", 69]);
  });

  it("on every address says so, and is reached through loopback", async () => {
    const { url, address } = await start(ok, { host: "0.0.0.0" });
    expect(address).toBe("0.0.0.0");
    expect(await (await fetch(url)).text()).toBe("ok");
  });

  it("ignores HOST, PORT and NODE_ENV", async () => {
    const before = { ...process.env };
    Object.assign(process.env, { HOST: "0.0.0.0", PORT: "1", NODE_ENV: "development" });
    try {
      expect((await start()).address).toBe("127.0.0.1");
    } finally {
      process.env = before;
    }
  });

  it("leaves the signals of the process alone", async () => {
    const before = ["SIGINT", "SIGTERM", "SIGHUP", "exit"].map((name) => process.listenerCount(name));
    await start();
    expect(["SIGINT", "SIGTERM", "SIGHUP", "exit"].map((name) => process.listenerCount(name))).toEqual(before);
  });

  it("serves TLS from files, and refuses files that are none with 78", async () => {
    const authority = await testAuthority();
    const { folder, ...tls } = await certificateFiles();
    const { port, url } = await start(ok, { tls });
    expect(url).toMatch(/^https:/);
    const status = await new Promise((resolve, reject) => {
      secureRequest({ host: "127.0.0.1", port, ca: authority.ca, agent: false }, (res) => {
        res.resume().on("end", () => resolve([res.statusCode, res.headers["strict-transport-security"]]));
      })
        .on("error", reject)
        .end();
    });
    expect(status).toEqual([200, "max-age=31536000"]);
    const suite = (ciphers: string) =>
      new Promise<string>((resolve) => {
        const socket = connectTls({ host: "127.0.0.1", port, ca: authority.ca, ciphers, maxVersion: "TLSv1.2" }, () => {
          resolve(socket.getCipher().name);
          socket.destroy();
        }).on("error", () => resolve("refused"));
      });
    const good = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";
    expect(good.split(":")).toContain(await suite(good));
    for (const ciphers of ["ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA", "AES128-SHA", "AES128-GCM-SHA256"])
      expect(await suite(`${ciphers}:@SECLEVEL=0`)).toBe("refused");
    await writeFile(tls.key, "not a key");
    for (const wrong of [tls, { ...tls, cert: join(folder, "none.pem") }]) {
      const error = (await listen(ok, { ...plan, tls: wrong }).catch((reason: unknown) => reason)) as StartError;
      expect([error.name, error.exitCode]).toEqual(["StartError", 78]);
    }
    await rm(folder, { recursive: true });
  });
});

describe("a head that cannot be read", () => {
  const answered = /^HTTP\/1\.1 (\d+) [^\r]+\r\nContent-Type: application\/problem\+json\r\n/;

  it.each([
    ["no HTTP at all", "hello\r\n\r\n", 400],
    ["another protocol", "\x16\x03\x01\x00\x05hello", 400],
    ["a bad method", "G E T / HTTP/1.1\r\nHost: x\r\n\r\n", 400],
    ["chunks within chunks", "POST /events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400],
    ["a bare line feed in a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400],
    ["20 KB of headers", `GET / HTTP/1.1\r\nHost: x\r\nX: ${"a".repeat(20_000)}\r\n\r\n`, 431],
  ])("%s: answered %s, and the connection ends", async (_, bytes, status) => {
    const api = await serve();
    const answer = await api.raw(bytes);
    await api[Symbol.asyncDispose]();
    // Node answers some of these itself, before it asks anybody.
    expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(answer.split("HTTP/1.1 ").length).toBe(2);
    expect([String(status), "404", "401"]).toContain(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
    expect(answer.toLowerCase()).toContain("connection: close");
  });

  it("gets a short problem", async () => {
    const { port } = await start();
    const answer = await talk(port, "hello\r\n\r\n");
    expect(answer).toMatch(answered);
    expect(answer.split("\r\n\r\n")[1]).toBe('{"type":"about:blank","title":"Bad Request","status":400}');
  });
});

describe("a slow client", () => {
  const soon = { headersMs: 200, requestMs: 400, checkMs: 50 };

  it("that never ends its head is let go", async () => {
    const { port } = await start(ok, {}, soon);
    expect(await talk(port, "GET / HTTP/1.1\r\n", "Host: x\r\n")).toMatch(/^HTTP\/1\.1 408 /);
  });

  it("that never ends its body is let go, and the handler hears of it", async () => {
    const ended = Promise.withResolvers<string>();
    const { port } = await start(
      (req) => void req.on("close", () => ended.resolve(req.complete ? "whole" : "cut off")).resume(),
      {},
      soon,
    );
    await talk(port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", "abc");
    expect(await ended.promise).toBe("cut off");
  });

  it("that sends far too much still reads why it was refused", async () => {
    const api = await serve();
    const huge = Buffer.alloc(4_000_000, 32);
    const got = await api.ask("POST", LIST, { body: huge });
    expect([got.status, got.json.code]).toEqual([413, "PAYLOAD_TOO_LARGE"]);
    const chunked = await api.ask("POST", LIST, { body: huge, headers: { "transfer-encoding": "chunked" } });
    expect([chunked.status, chunked.json.code]).toEqual([413, "PAYLOAD_TOO_LARGE"]);
    expect((await api.ask("POST", LIST, { body: HOOK })).status).toBe(201);
    await api[Symbol.asyncDispose]();
  });
});

describe("connections", () => {
  it("are drained: idle ones end, a request under way is answered, nothing new is taken", async () => {
    const arrived = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    const listening = await start((req, res) => {
      if (req.url === "/fast") return void res.end("ok");
      arrived.resolve();
      void answer.promise.then(() => res.end("late"));
    });
    const agent = new Agent({ keepAlive: true });
    const get = (path: string): Promise<{ readonly text: string; readonly connection: string | undefined }> =>
      new Promise((resolve, reject) => {
        request({ port: listening.port, path, agent }, (res) => {
          let text = "";
          res.on("data", (chunk: Buffer) => (text += chunk.toString()));
          res.on("end", () => resolve({ text, connection: res.headers.connection }));
        })
          .on("error", reject)
          .end();
      });
    await get("/fast");
    const slow = get("/slow");
    await arrived.promise;
    const closed = listening.close(5_000);
    await expect(get("/fast")).rejects.toMatchObject({ code: expect.stringMatching(/ECONN/) });
    answer.resolve();
    expect(await slow).toMatchObject({ text: "late" });
    await closed;
    await listening.close(5_000);
    agent.destroy();
  });

  it("that drain end when their answers have been read, all of them", async () => {
    const size = 16_000_000;
    const listening = await start((_req, res) => void res.end(Buffer.alloc(size, 32)));
    const socket = connect(listening.port, "127.0.0.1").pause();
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3));
    await once(socket, "readable");
    const closed = listening.close(20_000);
    let got = 0;
    socket.on("data", (part: Buffer) => (got += part.length)).resume();
    await once(socket, "close");
    expect(got).toBeGreaterThan(3 * size);
    await closed;
  });

  it("that do not end within the grace are cut off", async () => {
    const arrived = Promise.withResolvers<void>();
    const listening = await start(() => arrived.resolve());
    const hanging = talk(listening.port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await arrived.promise;
    await listening.close(50);
    expect(await hanging).toBe("");
  });

  it("whose TLS handshake never ends are cut off after the grace", async () => {
    const { folder, ...tls } = await certificateFiles();
    const listening = await start(ok, { tls });
    const silent = connect(listening.port, "127.0.0.1").on("error", () => {});
    await once(silent, "connect");
    await listening.close(50);
    await once(silent.resume(), "close");
    await rm(folder, { recursive: true });
  });
});
