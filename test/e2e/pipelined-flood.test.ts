// Anybody may connect: who asks for far more than is read fills no memory, and keeps nobody from being served.
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { get } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { eventually } from "../support/until.ts";

const CONNECTIONS = 20;
const REQUESTS = 4_000;
const HEAP_MIB = 256;

/** The most that a process has held in memory so far, MiB. */
const peakOf = (pid: number): number =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1_024;
const openFiles = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;

/** The status of an answer, over a connection of its own. */
const statusOf = (url: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    get(url, { agent: false }, (res) => resolve(res.resume().statusCode)).on("error", reject);
  });

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

describe("a relay in a small heap", () => {
  it("outlives connections that ask for a large document 4,000 times each and read nothing", async () => {
    await using relay = await startChild(testFolder(), {
      env: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` },
    });
    expect(await statusOf(`${relay.url}/openapi.json`)).toBe(200);
    const files = openFiles(relay.pid);
    const before = peakOf(relay.pid);
    const asked = "GET /openapi.json HTTP/1.1\r\nHost: relay\r\n\r\n".repeat(REQUESTS);
    for (let n = 0; n < CONNECTIONS; n++) {
      const socket = connect(Number(new URL(relay.url).port), "127.0.0.1").pause();
      socket.on("error", () => undefined).write(asked);
      sockets.push(socket);
    }
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    // All of them have been accepted when one that came after them is answered.
    expect(await statusOf(`${relay.url}/healthz`)).toBe(200);
    await eventually("they are closed", () => openFiles(relay.pid) < files + CONNECTIONS / 2, 30_000);
    expect((await relay.publish({ type: "a:b", keyId: "key_1", id: "after", data: 1 })).status).toBe(202);
    expect(peakOf(relay.pid) - before).toBeLessThan(100);
  });

  it("outlives thousands of connections that each leave as many requests unanswered as they may", async () => {
    await using relay = await startChild(testFolder(), {
      env: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` },
    });
    expect(await statusOf(`${relay.url}/openapi.json`)).toBe(200);
    const before = peakOf(relay.pid);
    const asked = "GET /openapi.json HTTP/1.1\r\nHost: relay\r\n\r\n".repeat(32);
    const port = Number(new URL(relay.url).port);
    for (let n = 0; n < 2_000; n++) {
      const socket = connect(port, "127.0.0.1").pause();
      socket.on("error", () => undefined).write(asked);
      sockets.push(socket);
      if (n % 100 === 99) expect(await statusOf(`${relay.url}/healthz`)).toBe(200);
    }
    expect((await relay.publish({ type: "a:b", keyId: "key_1", id: "after", data: 1 })).status).toBe(202);
    expect(peakOf(relay.pid) - before).toBeLessThan(250);
  });
});
