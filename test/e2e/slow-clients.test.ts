// Clients that are slow, cut off, too many or too eager, against a whole relay: nothing hangs, nothing is half accepted.
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { kept } from "../support/kept.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";
import { TEST_KEYS } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const relay = kept(await startChild(testFolder()));
const port = Number(new URL(relay.url).port);

const event = (keyId: string, id: string): string => JSON.stringify({ type: "deposit:paid", keyId, id, data: 1 });
const head = (more: string, type = "application/json"): string =>
  `POST /events HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer ${TEST_KEYS.publishToken}\r\n` +
  `Content-Type: ${type}\r\n${more}\r\n\r\n`;
const whole = (body: string): string => head(`Content-Length: ${Buffer.byteLength(body)}`) + body;

interface Client {
  readonly socket: Socket;
  text(): string;
  /** Resolves when the pattern was heard, or the connection ended. */
  heard(pattern: RegExp): Promise<string>;
}

async function client(first: string, to = port): Promise<Client> {
  const socket = connect(to, "127.0.0.1").on("error", () => undefined);
  let text = "";
  socket.setEncoding("latin1").on("data", (part: string) => (text += part));
  await once(socket, "connect");
  if (first !== "") await new Promise((resolve) => socket.write(first, resolve));
  return {
    socket,
    text: () => text,
    async heard(pattern) {
      while (!pattern.test(text) && !socket.destroyed) {
        await new Promise<void>((resolve) => {
          for (const name of ["data", "close"]) socket.once(name, () => resolve());
        });
      }
      return text;
    },
  };
}

async function ids(keyId: string): Promise<readonly string[]> {
  const { json } = await relay.call("GET", `/api-keys/${keyId}/events?limit=200`);
  return json.data.map(({ id }: { id: string }) => id).toSorted();
}

describe("publishers that are cut off", () => {
  it("in the middle of a body have published nothing, however their body comes", async () => {
    const one = event("key_cut", "half:1");
    const line = `${one}\n`;
    const ndjson = `${line}${event("key_cut", "half:2")}\n`;
    const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
    const cut = [
      head(`Content-Length: ${one.length + 1}`) + one,
      head(`Content-Length: ${ndjson.length + 1}`, "application/x-ndjson") + ndjson,
      // Every line of it is whole, but that it was all has not been said.
      head("Transfer-Encoding: chunked", "application/x-ndjson") + chunk(line) + chunk(line),
      head("Transfer-Encoding: chunked") + chunk(one),
      head("Transfer-Encoding: chunked") + chunk(one) + "0\r\n",
      whole(one).slice(0, -1),
    ];
    const clients = await Promise.all(cut.map((text) => client(text)));
    for (const [i, { socket }] of clients.entries()) {
      if (i % 2 === 0) socket.end();
      else socket.resetAndDestroy();
    }
    const last = await client(whole(event("key_cut", "whole")));
    await last.heard(/"whole"/);
    for (const { socket } of [...clients, last]) socket.destroy();
    expect(await ids("key_cut")).toEqual(["whole"]);
  });

  it("right after it have published all or nothing, and can ask which by publishing again", async () => {
    const all = Array.from({ length: 40 }, (_, i) => `sent:${i}`);
    await Promise.all(
      all.map(async (id) => {
        const { socket } = await client(whole(`[${event("key_gone", id)},${event("key_gone", `${id}:b`)}]`));
        socket.resetAndDestroy();
      }),
    );
    for (const id of all) {
      const { status, json } = await relay.publish([
        JSON.parse(event("key_gone", id)),
        JSON.parse(event("key_gone", `${id}:b`)),
      ]);
      expect(status).toBe(202);
      expect(json.data[0].duplicate).toBe(json.data[1].duplicate);
    }
    expect(await ids("key_gone")).toHaveLength(80);
  });
});

describe("clients that take their time", () => {
  it("hundreds of them, slow in head, body and reading, hold up nobody", async () => {
    const { json } = await relay.publish(
      Array.from({ length: 100 }, () => ({ type: "a:b", keyId: "key_slow", data: "x".repeat(2_000) })),
    );
    expect(json.data).toHaveLength(100);
    /** How long the tenth quickest of twenty took, ms: a machine that stalls for a while holds up a few of them. */
    const quick = async (name: string): Promise<number> => {
      const took: number[] = [];
      for (let n = 0; n < 20; n++) {
        const began = performance.now();
        expect((await relay.publish(JSON.parse(event("key_quick", `${name}:${n}`)))).status).toBe(202);
        took.push(performance.now() - began);
      }
      return took.sort((a, b) => a - b)[9] as number;
    };
    const alone = await quick("alone");
    const one = event("key_slow", "late");
    const slow = await Promise.all([
      ...Array.from({ length: 150 }, () => client("POST /events HTTP/1.1\r\nHost: re")),
      ...Array.from({ length: 150 }, () => client(head(`Content-Length: ${one.length}`) + one.slice(0, 10))),
      ...Array.from({ length: 300 }, () => client("")),
      ...Array.from({ length: 50 }, async () => {
        const reader = await client("GET /openapi.json HTTP/1.1\r\nHost: relay\r\n\r\n".repeat(20));
        reader.socket.pause();
        return reader;
      }),
    ]);
    // One of them is given 10 s for its head: whoever had to wait for it would take far longer.
    expect(await quick("busy")).toBeLessThan(alone * 10 + 1_000);
    // The slow ones are no worse off for it: what they finish is taken.
    const patient = slow[150] as Client;
    patient.socket.write(one.slice(10));
    expect(await patient.heard(/"late"/)).toMatch(/^HTTP\/1\.1 202/);
    for (const { socket } of slow) socket.destroy();
  });
});

describe.concurrent("uploads that stall", () => {
  /** Memory of the relay's process, KiB. */
  const resident = (pid: number): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  const MIB = 1_048_576;
  const most = Buffer.alloc(8 * MIB - 10, " ");

  it("300 of 8 MiB, with a length and in chunks, take little memory and keep no event out", async () => {
    await using own = await startChild(testFolder());
    const to = Number(new URL(own.url).port);
    const small = { type: "a:b", keyId: "key_1", data: "x".repeat(2_000) };
    /** Publishes; a storage that is slow on a busy machine is not the uploads' fault. */
    const publish = async (body: unknown): Promise<void> => {
      for (;;) {
        const { status, json } = await own.publish(body);
        if (status === 429 && json.detail.includes("The storage is slow")) continue;
        expect(status, JSON.stringify(json)).toBe(202);
        return;
      }
    };
    for (let n = 0; n < 50; n++) await publish(Array.from({ length: 100 }, () => small));
    const before = resident(own.pid);
    const ways = [
      { more: `Content-Length: ${8 * MIB}`, part: most },
      {
        more: "Transfer-Encoding: chunked",
        part: Buffer.concat([Buffer.from(`${most.length.toString(16)}\r\n`), most]),
      },
    ];
    const uploads = await Promise.all(
      Array.from({ length: 300 }, async (_, i) => {
        const { more, part } = ways[i % 2] as (typeof ways)[number];
        return { part, ...(await client(head(more), to)) };
      }),
    );
    for (const { socket, part } of uploads) socket.write(part);
    // Nearly all are told to come back; those that are not hold at most what they may.
    const answered = () => uploads.map(({ text }) => text()).filter((text) => text !== "");
    await eventually("nearly all are answered", () => answered().length > 290, 120_000);
    const refused = answered();
    for (const text of refused) expect(text).toMatch(/^HTTP\/1\.1 429 [^]*retry-after: \d+[^]*PROVIDER_BACKPRESSURE/i);
    await publish(small);
    // The bytes of refused ones go with the next collection, which needs work: a relay at rest collects nothing. A
    // larger event would be refused as the uploads are. Read whole, they would be 2.4 GB.
    const grown = async (): Promise<number> => {
      for (let n = 0; n < 5; n++) await publish({ ...small, data: "x".repeat(50_000) });
      return (resident(own.pid) - before) / 1_024;
    };
    await eventually("they take little memory", async () => (await grown()) < 128, 60_000);
    for (const { socket } of uploads) socket.destroy();
    // Their memory is free again.
    const large = Array.from({ length: 30 }, () => ({ ...small, data: "x".repeat(200_000) }));
    await eventually("a large event is taken", async () => (await own.publish(large)).status === 202, 60_000);
  });
});

describe.concurrent("more clients than there may be", () => {
  it("are turned away at once, and taken again when others have gone", async () => {
    await using small = await startChild(testFolder(), { config: "server: { port: 0, maxConnections: 20 }," });
    const to = Number(new URL(small.url).port);
    const held = await Promise.all(Array.from({ length: 20 }, () => client("", to)));
    const beyond = await client("GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n", to);
    expect(await beyond.heard(/never/)).toBe("");
    held[0]?.socket.write("GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n");
    expect(await held[0]?.heard(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 200/);
    for (const { socket } of held) socket.destroy();
    const status = async () => (await fetch(`${small.url}/healthz`).catch(() => undefined))?.status;
    await eventually("one is taken again", async () => (await status()) === 200, 60_000);
  });

  it("that use up its descriptors cost no delivery an attempt", async ({ skip }) => {
    const missing = needs("prlimit");
    skip(missing !== undefined, missing);
    await using receiver = await startReceiver();
    await using small = await startChild(testFolder(), { under: ["prlimit", "--nofile=80:80"] });
    const to = Number(new URL(small.url).port);
    await small.subscribe(receiver.url(), { timeoutMs: 30_000 });
    const publisher = await client("GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n", to);
    await publisher.heard(/\r\n\r\n/);
    // Half a body has three times the time that a head has.
    const half = head("Content-Length: 10");
    const crowd = await Promise.all(Array.from({ length: 100 }, () => client(half, to)));
    // They are connected as soon as the kernel says so; the relay is full when it has taken them in.
    await eventually("it is full", () => readdirSync(`/proc/${small.pid}/fd`).length >= 80, 60_000);
    publisher.socket.write(whole(event("key_1", "starved")));
    expect(await publisher.heard(/"starved"/)).toMatch(/HTTP\/1\.1 202/);
    await small.running.waitFor(/EMFILE.*a delivery went back/);
    expect(receiver.requests).toHaveLength(0);
    for (const { socket } of [...crowd, publisher]) socket.destroy();
    await receiver.waitFor(1, 60_000);
    const starved = async () => await small.event("starved");
    await eventually("it is delivered", async () => (await starved()).status === "delivered", 60_000);
    expect((await starved()).deliveries[0].attempts).toMatchObject([{ number: 1, statusCode: 200 }]);
  });
});
