import { execFile } from "node:child_process";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { freePort } from "../../tools/free-port.ts";
import { classifyError } from "../../plugins/storage/redis/calls.ts";
import { connection, type RedisConnection } from "../../plugins/storage/redis/connect.ts";
import { loopbackCertificate, testAuthority } from "../support/certificates.ts";
import { needs } from "../support/needs.ts";
import { startRedis, startReplica, startSentinel } from "../support/redis.ts";

/** Answers as a Redis does that has just come back: its `INFO` says that it loads, and that it will take hours. */
async function loadingRedis(times: number) {
  let asked = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let lines: string[] = [""];
    socket.setEncoding("latin1").on("data", (part: string) => {
      const [first = "", ...more] = part.split("\r\n");
      lines = [...lines.slice(0, -1), `${lines.at(-1)}${first}`, ...more];
      // A command is `*2`, and for each of its words its length and the word itself.
      for (let size = sizeOf(lines); lines.length > size; size = sizeOf(lines)) {
        const [, , name = ""] = lines.splice(0, size);
        if (name.toLowerCase() !== "info") {
          socket.write("+OK\r\n");
          continue;
        }
        const info = `role:master\r\nloading:${asked++ < times ? 1 : 0}\r\nloading_eta_seconds:7200\r\n`;
        socket.write(`$${info.length}\r\n${info}\r\n`);
      }
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: () => asked,
    end(): Promise<void> {
      for (const socket of sockets) socket.destroy();
      return new Promise((closed) => server.close(() => closed()));
    },
  };
}
const sizeOf = ([first = ""]: readonly string[]): number => 1 + 2 * Number(first.slice(1));

const ends: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

describe("a connection to Redis", () => {
  it("does not wait for as long as a Redis that loads its data believes to need", async () => {
    const server = await loadingRedis(3);
    ends.push(server.end);
    const made: RedisConnection = await connection({ url: server.url }, "relay");
    ends.push(() => made.client.disconnect());
    await made.client.connect();
    expect(server.asked()).toBe(4);
    expect(made.client.status).toBe("ready");
  });

  it("holds up no end of the process when it is given up while Redis is away", async () => {
    const connect = new URL("../../plugins/storage/redis/connect.ts", import.meta.url).href;
    const script = `const { connection } = await import(${JSON.stringify(connect)});
      const { client } = await connection({ url: "redis://127.0.0.1:${await freePort()}" }, "relay");
      await client.connect().catch(() => {});
      const from = performance.now();
      client.disconnect();
      process.on("exit", () => console.log(performance.now() - from));`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
    expect(Number(stdout)).toBeLessThan(1_000);
  });
});

const missing = needs("redis");

it.skipIf(missing !== undefined)(`asks sentinels over TLS for a Redis that has none${missing ?? ""}`, async () => {
  await using servers = new AsyncDisposableStack();
  const master = servers.use(await startRedis());
  servers.use(await startReplica(master));
  const sentinel = servers.use(await startSentinel(master));
  const { cert, key } = await loopbackCertificate();
  const secured = createTlsServer({ cert, key }, (socket) => {
    const behind = connect(sentinel.port, "127.0.0.1");
    for (const one of [socket, behind]) one.on("error", () => one.destroy());
    socket.pipe(behind).pipe(socket);
    socket.once("close", () => behind.destroy());
  });
  await new Promise<void>((listening) => secured.listen(0, "127.0.0.1", listening));
  servers.defer(() => void secured.close());
  const sentinels = [{ host: "127.0.0.1", port: (secured.address() as AddressInfo).port }];
  const { ca } = await testAuthority();
  const { client } = await connection({ sentinels, sentinelTls: { ca } }, "relay");
  servers.defer(() => client.disconnect());
  await client.connect();
  expect(await client.set("key", "value")).toBe("OK");
  expect(await master.command("GET", "key")).toContain("value");
});

describe("what Redis 6 refuses within a script", () => {
  const WITHIN = "ERR Error running script (call to f_1f8f4cfb): @user_script:1: @user_script: 1: -";
  const refusal = (text: string): Error => Object.assign(new Error(`${WITHIN}${text}`), { name: "ReplyError" });

  it("is known for what it is: full, for a while, or a fault of the script", () => {
    expect(classifyError(refusal("OOM command not allowed when used memory > 'maxmemory'.")).kind).toBe("full");
    expect(classifyError(refusal("READONLY You can't write against a read only replica.")).kind).toBe("refused");
    expect(classifyError(refusal("NOREPLICAS Not enough good replicas to write.")).kind).toBe("refused");
    expect(classifyError(refusal("WRONGTYPE Operation against a key")).kind).toBe("broken");
    expect(classifyError(Object.assign(new Error(`${WITHIN.slice(0, -1)}x`), { name: "ReplyError" })).kind).toBe(
      "broken",
    );
  });

  it("makes the client look for the new master", async () => {
    const { client } = await connection({ url: "redis://127.0.0.1:1" }, "relay");
    const options = client.options as { reconnectOnError?: ((error: Error) => boolean | 1 | 2) | null };
    expect(options.reconnectOnError?.(refusal("READONLY You can't write against a read only replica."))).toBe(true);
    expect(options.reconnectOnError?.(new Error("READONLY You can't write"))).toBe(true);
    expect(options.reconnectOnError?.(refusal("OOM command not allowed"))).toBe(false);
    client.disconnect();
  });
});
