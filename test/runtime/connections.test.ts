// The bounds of a connection: how long it may say nothing, and how much it may leave unanswered.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import type { Handler } from "../../core/runtime/connections.ts";
import { listen, type Listening, type Patience } from "../../core/runtime/server.ts";
import { loopbackCertificate } from "../support/certificates.ts";
import { testFolder } from "../support/folder.ts";

const open: Listening[] = [];
const plan = { host: "127.0.0.1", port: 0, trustedProxies: [], shutdownMs: 1_000, maxConnections: 100 };
const ok: Handler = (_req, res) => void res.end("ok");

async function start(handler: Handler, patience: Partial<Patience> = {}, over: object = {}): Promise<number> {
  const listening = await listen(handler, { ...plan, ...over }, patience);
  open.push(listening);
  return listening.port;
}
afterEach(async () => {
  for (const one of open.splice(0)) await one.close(0);
});

async function startTls(patience: Partial<Patience>): Promise<number> {
  const { cert, key } = await loopbackCertificate();
  const folder = testFolder();
  const tls = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  writeFileSync(tls.cert, cert);
  writeFileSync(tls.key, key);
  return await start(ok, patience, { tls });
}

/** All that came back until the connection ended. */
async function ended(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (part: Buffer) => (text += part.toString("latin1"))).on("error", () => undefined);
  await once(socket, "close");
  return text;
}

describe("a TLS connection", () => {
  it("that sends nothing is gone after the time for a handshake", async () => {
    const port = await startTls({ handshakeMs: 200 });
    const silent = connect(port, "127.0.0.1");
    expect(await ended(silent)).toBe("");
  });

  it("that fails its handshake is gone", async () => {
    const port = await startTls({});
    const wrong = connect(port, "127.0.0.1");
    wrong.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await ended(wrong);
    // A drain waits for whatever is left.
    await (open[0] as Listening).close(60_000);
  });

  it("whose head never ends is told so and closed", async () => {
    const port = await startTls({ headersMs: 200, requestMs: 400, checkMs: 50 });
    const slow = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false });
    slow.write("GET / HTTP/1.1\r\nHost: x\r\n");
    expect(await ended(slow)).toMatch(/^HTTP\/1\.1 408 [^]*Connection: close/);
  });
});

describe("requests of one connection", () => {
  const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

  it("are carried out one after the other", async () => {
    const begun: ServerResponse[] = [];
    const waiters: (() => void)[] = [];
    const port = await start((_req, res) => {
      begun.push(res);
      for (const heard of waiters.splice(0)) heard();
    });
    const socket = connect(port, "127.0.0.1");
    socket.write(get.repeat(32));
    const text = ended(socket);
    for (let n = 1; n <= 32; n++) {
      while (begun.length < n) await new Promise<void>((heard) => waiters.push(heard));
      expect(begun).toHaveLength(n);
      begun[n - 1]?.end(`answer ${n}.`);
    }
    socket.end();
    expect([...(await text).matchAll(/answer (\d+)\./g)].map(([, n]) => Number(n))).toEqual(
      Array.from({ length: 32 }, (_, i) => i + 1),
    );
  });

  it("are destroyed with it when more than 32 are unanswered", async () => {
    let begun = 0;
    const port = await start(() => void begun++);
    const socket = connect(port, "127.0.0.1");
    socket.write(get.repeat(33));
    expect([await ended(socket), begun]).toEqual(["", 1]);
  });

  it("are not carried out any more when it has ended", async () => {
    const begun: string[] = [];
    const port = await start((req, res) => {
      begun.push(req.url ?? "");
      res.end();
    });
    const socket = connect(port, "127.0.0.1");
    socket.write(`GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n${get}`);
    await ended(socket);
    expect(begun).toEqual(["/last"]);
  });

  it("hold no memory for an answer that nobody reads but the first", async () => {
    const large = Buffer.alloc(16 * 1_048_576);
    let begun = 0;
    const stalled = Promise.withResolvers<void>();
    const port = await start(
      (_req, res) => {
        begun++;
        res.once("close", () => stalled.resolve()).end(large);
      },
      { stalledMs: 500 },
    );
    const socket = connect(port, "127.0.0.1")
      .on("error", () => undefined)
      .pause();
    socket.write(get.repeat(32));
    await stalled.promise;
    expect(begun).toBe(1);
    socket.destroy();
  });
});
