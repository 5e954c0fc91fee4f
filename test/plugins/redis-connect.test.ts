import { createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { connection, type RedisConnection } from "../../plugins/storage/redis/connect.ts";

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
});
