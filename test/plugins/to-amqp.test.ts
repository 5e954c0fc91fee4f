/** The AMQP transport against a real RabbitMQ, which is killed, and which refuses in each of its ways. */
import { Connection } from "rabbitmq-client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Transport } from "../../core/ports/transport.ts";
import { toAmqp } from "../../plugins/transport/amqp.ts";
import type { ToAmqpOptions } from "../../plugins/transport/amqp/transport.ts";
import { describeTransport, type FarRequest } from "../conformance/transport.ts";
import { busBench, keptLog, NO_BUS_CAN, sendTo, setUp, textOf, whenNotReady, whenReady } from "../support/bus-bench.ts";
import { needs } from "../support/needs.ts";
import { startRabbit, type RabbitServer } from "../support/rabbitmq.ts";
import { freePort } from "../../tools/free-port.ts";

const missing = needs("rabbitmq");

describe.skipIf(missing !== undefined)(`the AMQP transport${missing ? ` (skipped: ${missing})` : ""}`, () => {
  let rabbit: RabbitServer;
  let client: Connection;
  let count = 0;
  const opened: Transport[] = [];

  beforeAll(async () => {
    rabbit = await startRabbit();
    client = new Connection({ url: rabbit.url, retryLow: 100, retryHigh: 500 });
    client.on("error", () => {});
    await client.exchangeDeclare({ exchange: "deposits", type: "topic", durable: true });
  });
  afterAll(async () => {
    client.unsafeDestroy();
    await Promise.all(opened.map((transport) => transport.dispose()));
    await rabbit[Symbol.asyncDispose]();
  });

  const open = async (more: Partial<ToAmqpOptions> = {}): Promise<Transport> => {
    const transport = await setUp(toAmqp({ name: "bus", url: rabbit.url, ...more }));
    opened.push(transport);
    await whenReady(transport);
    return transport;
  };

  const queue = async (name: string, routingKey: string, more: Record<string, unknown> = {}): Promise<void> => {
    await client.queueDeclare({ queue: name, durable: true, arguments: more });
    await client.queueBind({ queue: name, exchange: "deposits", routingKey });
  };

  /** Takes what is in a queue, and adds it to `found`. */
  async function take(name: string, found: (FarRequest & { readonly more: object })[]): Promise<typeof found> {
    for (;;) {
      const message = await client.basicGet({ queue: name, noAck: true });
      if (message === undefined) return found;
      const { headers = {}, body, messageId, durable, contentType } = message;
      found.push({ headers, body: body as Buffer, more: { messageId, durable, contentType } });
    }
  }

  describe("the law of transports", () => {
    describeTransport(it, {
      cannot: NO_BUS_CAN,
      async open() {
        const name = `law.${++count}`;
        await queue(name, name);
        const found: Awaited<ReturnType<typeof take>> = [];
        const bench = await busBench({
          port: rabbit.port,
          plugin: (port) => toAmqp({ name: "bus", url: `amqp://guest:guest@127.0.0.1:${port}` }),
          url: `amqp://bus/deposits/${name}`,
          nowhere: "amqp://bus/no-such-exchange/key",
          read: () => take(name, found),
        });
        // Opens the channel of the exchange: behind a far side that says nothing it could not be opened any more.
        await sendTo(bench.transport, "amqp://bus/deposits/nobody");
        return bench;
      },
    });
  });

  it("publishes a persistent message with the body, the headers as they are and the message id", async () => {
    await queue("paid", "deposits.paid");
    const transport = await open();
    const headers = { "Content-Type": "application/json", "webhook-signature": "v1,abc=" };
    const reply = await sendTo(transport, "amqp://bus/deposits/deposits.paid", { headers, messageId: "dlv_1" });
    expect(textOf(reply)).toBe("200 exchange deposits, routing key deposits.paid: confirmed");
    const [message] = await take("paid", []);
    expect(message).toMatchObject({ headers, more: { messageId: "dlv_1", durable: true } });
    expect(Buffer.from(message?.body ?? "").toString()).toBe('{"id":"evt_1","keyId":"key_1","data":{"n":1}}');
  });

  it("says of a message that no queue takes that it will not do, among others that go well", async () => {
    await queue("some", "some.key");
    const transport = await open();
    const keys = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? "some.key" : "nobody.wants.this"));
    const replies = await Promise.all(keys.map((key) => sendTo(transport, `amqp://bus/deposits/${key}`)));
    for (const [n, reply] of replies.entries())
      expect(textOf(reply)).toBe(
        n % 2 === 0
          ? "200 exchange deposits, routing key some.key: confirmed"
          : "error no queue takes the routing key nobody.wants.this of the exchange deposits (NO_ROUTE)",
      );
  });

  it("says of an exchange that is not there that it will not do, and harms no other exchange", async () => {
    await queue("fine", "fine.key");
    const transport = await open();
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        sendTo(transport, n % 2 === 0 ? "amqp://bus/deposits/fine.key" : "amqp://bus/not-there/key"),
      ),
    );
    for (const [n, reply] of replies.entries()) {
      if (n % 2 === 0) expect(textOf(reply)).toMatch(/^200/);
      else expect(reply).toMatchObject({ kind: "error", error: "protocol" });
    }
    expect(textOf(replies[1]!)).toMatch(/no exchange 'not-there' in vhost/);
    await client.exchangeDeclare({ exchange: "not-there", type: "fanout" });
    await client.queueBind({ queue: "fine", exchange: "not-there", routingKey: "" });
    expect(textOf(await sendTo(transport, "amqp://bus/not-there"))).toMatch(/^200/);
  });

  it("says of a queue that is full that the broker refused", async () => {
    await queue("full", "full.key", { "x-max-length": 1, "x-overflow": "reject-publish" });
    const transport = await open();
    const first = await sendTo(transport, "amqp://bus/deposits/full.key");
    expect(textOf(first)).toMatch(/^200/);
    const second = await sendTo(transport, "amqp://bus/deposits/full.key");
    expect(textOf(second)).toBe("error the broker refused the message: a queue of it is full");
  });

  it("is away while the server is killed, ends what is under way, comes back by itself, and says both", async () => {
    await queue("killed", "killed.key");
    await rabbit.wrote("killed");
    await rabbit.wrote("killed.key");
    const { log, said } = keptLog();
    const transport = await setUp(toAmqp({ name: "bus", url: rabbit.url }), { log });
    opened.push(transport);
    await whenReady(transport);
    rabbit.pause();
    const sending = sendTo(transport, "amqp://bus/deposits/killed.key");
    await rabbit.kill();
    expect(textOf(await sending)).toBe("unavailable the connection bus is away");
    expect(await whenNotReady(transport)).toBe("is not connected");
    expect(await sendTo(transport, "amqp://bus/deposits/killed.key")).toMatchObject({ kind: "unavailable" });
    await rabbit.start();
    await whenReady(transport);
    expect(textOf(await sendTo(transport, "amqp://bus/deposits/killed.key"))).toMatch(/^200/);
    expect(said).toContain("warn a connection to RabbitMQ failed");
    expect(said.filter((line) => line === "info the connection to RabbitMQ is there again")).toHaveLength(1);
    expect(said.at(-1)).toBe("info the connection to RabbitMQ is there again");
  });

  it("starts without a server, and says so", async () => {
    const transport = await setUp(toAmqp({ name: "bus", url: `amqp://127.0.0.1:${await freePort()}` }));
    opened.push(transport);
    expect(transport.readiness?.()).toBe("is not connected");
    expect(await sendTo(transport, "amqp://bus/deposits/a")).toMatchObject({ kind: "unavailable" });
  });

  it("takes an exchange and a routing key for a URL, and never the default exchange", async () => {
    const transport = await open();
    for (const good of ["deposits", "deposits/deposits.paid", "a_b-c.d/0"])
      expect(await transport.problems?.(`amqp://bus/${good}`), good).toBeUndefined();
    for (const bad of ["", "/queue", "a/", "a/b/c", "a b", "a/#", "a/*", "a%2f", `${"x".repeat(128)}/k`]) {
      expect(await transport.problems?.(`amqp://bus/${bad}`), bad).toMatch(/^must be amqp:\/\/bus\/ and an exchange/);
      expect(await sendTo(transport, `amqp://bus/${bad}`), bad).toMatchObject({ error: "protocol" });
    }
  });
});

it("judges its options before the start, and shows no password", () => {
  const problems = (options: object) => toAmqp(options as ToAmqpOptions).problems;
  expect(problems({ name: "bus", url: "amqps://user:secret@rabbit/vhost" })).toEqual([]);
  expect(problems({ name: "bus", url: { secretFrom: { file: "bus-url" } } })).toEqual([]);
  expect(problems({ name: "B", url: "http://:secret@x" })?.map(({ path }) => path)).toEqual(["name", "url"]);
  expect(JSON.stringify(problems({ name: "bus", url: "http://:secret@x" }))).not.toContain("secret@");
});
