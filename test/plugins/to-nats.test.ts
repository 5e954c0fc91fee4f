/** The NATS transport against a real server with JetStream, which is killed, full and not there. */
import { jetstream, jetstreamManager, type JetStreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Transport } from "../../core/ports/transport.ts";
import type { FarRequest } from "../conformance/transport.ts";
import { toNats } from "../../plugins/transport/nats.ts";
import type { ToNatsOptions } from "../../plugins/transport/nats/transport.ts";
import { describeTransport } from "../conformance/transport.ts";
import { busBench, keptLog, NO_BUS_CAN, sendTo, setUp, textOf, whenNotReady, whenReady } from "../support/bus-bench.ts";
import { needs } from "../support/needs.ts";
import { startNats, type NatsServer } from "../support/nats.ts";
import { freePort } from "../../tools/free-port.ts";
import { tcpShim } from "../support/tcp-shim.ts";

const missing = needs("nats");

describe.skipIf(missing !== undefined)(`the NATS transport${missing ? ` (skipped: ${missing})` : ""}`, () => {
  let nats: NatsServer;
  let client: NatsConnection;
  let manager: JetStreamManager;
  let count = 0;
  const opened: Transport[] = [];

  beforeAll(async () => {
    nats = await startNats();
    client = await connect({ servers: nats.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
    manager = await jetstreamManager(client);
    await manager.streams.add({ name: "LAW", subjects: ["law.>"] });
    await manager.streams.add({ name: "DEPOSITS", subjects: ["deposits.>"] });
    await manager.streams.add({ name: "FULL", subjects: ["full"], max_msgs: 1, discard: "new" });
  });
  afterAll(async () => {
    await client.close();
    await Promise.all(opened.map((transport) => transport.dispose()));
    await nats[Symbol.asyncDispose]();
  });

  const open = async (more: Partial<ToNatsOptions> = {}): Promise<Transport> => {
    const transport = await setUp(toNats({ name: "bus", servers: nats.url, ...more }));
    opened.push(transport);
    await whenReady(transport);
    return transport;
  };

  async function messages(stream: string, subject: string): Promise<readonly FarRequest[]> {
    const { messages: most } = (await manager.streams.info(stream)).state;
    const found: FarRequest[] = [];
    for (let seq = 1; seq <= most; seq++) {
      const message = await manager.streams.getMessage(stream, { seq });
      if (message?.subject !== subject) continue;
      const headers = Object.fromEntries(message.header.keys().map((name) => [name, message.header.get(name)]));
      found.push({ headers, body: message.data });
    }
    return found;
  }

  describe("the law of transports", () => {
    describeTransport(it, {
      cannot: NO_BUS_CAN,
      open() {
        const subject = `law.${++count}`;
        return busBench({
          port: nats.port,
          plugin: (port) => toNats({ name: "bus", servers: `nats://127.0.0.1:${port}` }),
          url: `nats://bus/${subject}`,
          nowhere: "nats://bus/no.such.subject",
          read: () => messages("LAW", subject),
        });
      },
    });
  });

  it("publishes the body with the headers as they are and the message id, and names the place", async () => {
    const transport = await open();
    const headers = { "Content-Type": "application/json", "webhook-signature": "v1,abc=" };
    const reply = await sendTo(transport, "nats://bus/deposits.paid", { headers, messageId: "dlv_1" });
    expect(textOf(reply)).toBe("200 stream DEPOSITS, sequence 1");
    const [message] = await messages("DEPOSITS", "deposits.paid");
    expect(message?.headers).toEqual({ ...headers, "Nats-Msg-Id": "dlv_1" });
    expect(Buffer.from(message?.body ?? "").toString()).toBe('{"id":"evt_1","keyId":"key_1","data":{"n":1}}');
  });

  it("is stored once, however often the same attempt is made", async () => {
    const transport = await open();
    const once = await sendTo(transport, "nats://bus/deposits.once", { messageId: "dlv_2" });
    const again = await sendTo(transport, "nats://bus/deposits.once", { messageId: "dlv_2" });
    expect(textOf(again)).toBe(`${textOf(once)} (a repeat: it had it before)`);
    expect(await messages("DEPOSITS", "deposits.once")).toHaveLength(1);
  });

  it("keeps a subscriber's headers from commanding the server", async () => {
    const transport = await open();
    const headers = { "nats-rollup": "all", "Nats-Expected-Last-Sequence": "99", "x-own": "1" };
    expect(textOf(await sendTo(transport, "nats://bus/deposits.rolled", { headers }))).toMatch(/^200/);
    const [message] = await messages("DEPOSITS", "deposits.rolled");
    expect(Object.keys(message?.headers ?? {}).sort()).toEqual(["Nats-Msg-Id", "x-own"]);
  });

  it("says of a subject that no stream takes that it will not do", async () => {
    const transport = await open();
    expect(textOf(await sendTo(transport, "nats://bus/nobody.takes.this"))).toBe(
      "error no stream takes the subject nobody.takes.this",
    );
    expect(transport.readiness?.()).toBeUndefined();
  });

  it("says of a stream that is full what the stream says", async () => {
    const transport = await open();
    await sendTo(transport, "nats://bus/full");
    expect(textOf(await sendTo(transport, "nats://bus/full"))).toBe("error maximum messages exceeded");
    expect(transport.readiness?.()).toBeUndefined();
  });

  it("says of a body that the server does not take that it is too large", async () => {
    const transport = await open();
    const reply = await sendTo(transport, "nats://bus/deposits.big", { body: Buffer.alloc(2_000_000) });
    expect(reply).toMatchObject({ kind: "error", error: "protocol", detail: expect.stringMatching(/max_payload/i) });
  });

  it("is away where JetStream is not", async () => {
    await using bare = await startNats(["--jetstream=false"]);
    const transport = await open({ servers: bare.url });
    expect(await sendTo(transport, "nats://bus/deposits.paid")).toMatchObject({ kind: "unavailable" });
    expect(transport.readiness?.()).toBe("JetStream does not answer");
    await transport.dispose();
  });

  it("is away while the server is killed, ends what is under way, comes back by itself, and says both", async () => {
    const { log, said } = keptLog();
    const transport = await setUp(toNats({ name: "bus", servers: nats.url }), { log });
    opened.push(transport);
    await whenReady(transport);
    nats.pause();
    const sending = sendTo(transport, "nats://bus/deposits.killed");
    await nats.kill();
    expect(textOf(await sending)).toBe("unavailable the connection bus is away");
    expect(await whenNotReady(transport)).toBe("is not connected");
    expect(await sendTo(transport, "nats://bus/deposits.killed")).toMatchObject({ kind: "unavailable" });
    await nats.start();
    await whenReady(transport);
    expect(textOf(await sendTo(transport, "nats://bus/deposits.killed"))).toMatch(/^200/);
    expect(said).toContain("warn a connection to NATS failed");
    expect(said.filter((line) => line === "info the connection to NATS is there again")).toHaveLength(1);
    expect(said.at(-1)).toBe("info the connection to NATS is there again");
  });

  it("starts without a server, and finds it when it comes", async () => {
    await using shim = await tcpShim(await freePort());
    const transport = await setUp(toNats({ name: "bus", servers: `nats://127.0.0.1:${shim.port}` }));
    opened.push(transport);
    expect(transport.readiness?.()).toBe("is not connected");
    expect(await sendTo(transport, "nats://bus/deposits.paid")).toMatchObject({ kind: "unavailable" });
    shim.aim(nats.port);
    await whenReady(transport);
    await transport.dispose();
  });

  it("logs in with a password or a token", async () => {
    await using guarded = await startNats(["--user", "relay", "--pass", "secret word"]);
    const transport = await open({ servers: guarded.url, user: "relay", password: "secret word" });
    expect(textOf(await sendTo(transport, "nats://bus/a"))).toBe("error no stream takes the subject a");
    const refused = await setUp(toNats({ name: "bus", servers: guarded.url, user: "relay", password: "no" }));
    expect(await sendTo(refused, "nats://bus/a")).toMatchObject({ kind: "unavailable" });
    expect(refused.readiness?.()).toBe("is not connected");
    await refused.dispose();
    await transport.dispose();
  });

  it("takes a subject for a URL, and none that the server keeps for itself", async () => {
    const transport = await open();
    for (const good of ["a", "deposits.paid", "a_b-c.0.D"])
      expect(await transport.problems?.(`nats://bus/${good}`), good).toBeUndefined();
    for (const bad of [
      "",
      "$JS.API.STREAM.DELETE.LAW",
      "a.$b",
      "_INBOX.x",
      "a.*",
      "a.>",
      ">",
      "a..b",
      ".a",
      "a.",
      "a b",
      "a/b",
    ]) {
      expect(await transport.problems?.(`nats://bus/${bad}`), bad).toMatch(/^must be nats:\/\/bus\/ and a subject/);
      expect(await sendTo(transport, `nats://bus/${bad}`), bad).toMatchObject({ error: "protocol" });
    }
    const ack = await jetstream(client).publish("law.alive");
    expect(ack.stream).toBe("LAW");
  });
});

it("judges its options before the start", () => {
  const paths = (options: object) => toNats(options as ToNatsOptions).problems?.map(({ path }) => path);
  expect(paths({ name: "bus", servers: "nats://a:4222" })).toEqual([]);
  expect(paths({ name: "bus", servers: ["a:4222", "tls://b"], token: { secretFrom: { env: "T" } } })).toEqual([]);
  expect(paths({ name: "", servers: "nats://user:word@a", password: "" })).toEqual(["name", "servers", "password"]);
  expect(paths({})).toEqual(["name", "servers"]);
});
