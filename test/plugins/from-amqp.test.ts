// RabbitMQ as a source, against a real server that is killed and started again.
import type { Socket } from "node:net";
import { connect, type Channel, type ChannelModel, type ConfirmChannel } from "amqplib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromAmqp } from "../../plugins/source/amqp.ts";
import type { FromAmqpOptions } from "../../plugins/source/amqp/session.ts";
import { startAmqp } from "../../plugins/source/amqp/session.ts";
import { describeSource, type Upstream } from "../conformance/source.ts";
import { desk, paid } from "../support/intake.ts";
import { describeMessageSource } from "../support/message-laws.ts";
import { ledger, openSource, sourceContext, stopWhileSilent } from "../support/message-plugin.ts";
import { needs } from "../support/needs.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { quietLog } from "../support/quiet.ts";
import { startRabbit, type RabbitServer } from "../support/rabbitmq.ts";
import { eventually, until } from "../support/until.ts";

const missing = needs("rabbitmq");
/** Pauses before a message or a connection is tried again are short; what bounds the end of a connection (2 s) stays. */
const hasty = (ms: number): number => (ms > 1_500 && ms < 4_000 ? ms : Math.min(ms, 100));
const clock = pacedClock(hasty);
const fsync = { durability: "fsync" } as const;

describe.skipIf(missing !== undefined)(`RabbitMQ as a source (${missing ?? "a real server"})`, () => {
  let server: RabbitServer;
  let model: ChannelModel;
  let channel: ConfirmChannel;
  let count = 0;

  async function dial(): Promise<void> {
    model = await connect(server.url);
    model.on("error", () => {});
    channel = await model.createConfirmChannel();
    channel.on("error", () => {});
  }
  beforeAll(async () => {
    server = await startRabbit();
    await dial();
  });
  afterAll(async () => {
    await model?.close();
    await server?.[Symbol.asyncDispose]();
  });

  async function newQueue(options: Parameters<Channel["assertQueue"]>[1] = {}): Promise<string> {
    const queue = `orders${++count}`;
    await channel.assertQueue(queue, { durable: true, ...options });
    return queue;
  }
  async function send(queue: string, payloads: readonly unknown[], options: object = {}): Promise<void> {
    for (const one of payloads) {
      const content = Buffer.from(typeof one === "string" ? one : JSON.stringify(one));
      channel.sendToQueue(queue, content, { persistent: true, contentType: "application/json", ...options });
    }
    await channel.waitForConfirms();
  }
  const options = (queue: string, more: Partial<FromAmqpOptions> = {}): FromAmqpOptions => ({
    url: server.url,
    queue,
    ...more,
  });
  /** The queue counts a message until it has worked through what was acknowledged. */
  const waiting = async (queue: string): Promise<number> => (await channel.checkQueue(queue)).messageCount;

  describe("keeps the law of a source:", () => {
    interface Told {
      upstream: PromiseWithResolvers<Upstream>;
    }
    const told = new WeakMap<object, Told>();
    describeSource(it, {
      async open() {
        const queue = await newQueue();
        const state: Told = { upstream: Promise.withResolvers() };
        const log = quietLog();
        const warn: typeof log.warn = (message) => {
          if (message.startsWith("a source waits")) state.upstream.resolve("later");
        };
        const plugin = fromAmqp(options(queue));
        // What the source says to the server, on a real connection.
        const overheard = (async (...given: Parameters<typeof connect>) => {
          const made = await connect(...given);
          const create = made.createChannel.bind(made);
          made.createChannel = async () => {
            const own = await create();
            const [ack, nack] = [own.ack.bind(own), own.nack.bind(own)];
            own.ack = (message, all) => (ack(message, all), state.upstream.resolve("acknowledged"));
            own.nack = (message, all, again) => {
              nack(message, all, again);
              state.upstream.resolve(again === true ? "later" : "refused");
            };
            return own;
          };
          return made;
        }) as typeof connect;
        const source = startAmqp(
          sourceContext(plugin, { log: { ...log, warn }, clock }),
          options(queue),
          overheard,
          server.url,
        );
        const under = {
          source,
          async publish(text: string) {
            await send(queue, [text]);
            return state.upstream.promise;
          },
          [Symbol.asyncDispose]: () => source.stop(),
        };
        told.set(under, state);
        return under;
      },
      again(under) {
        const state = told.get(under) as Told;
        state.upstream = Promise.withResolvers();
        return state.upstream.promise;
      },
    });
  });

  describe("keeps the law of a source of messages:", () => {
    describeMessageSource({
      make: newQueue,
      read: (queue) => fromAmqp(options(queue, { prefetch: 1 })),
      send: (queue, payload) => send(queue, [payload]),
      async remake(queue) {
        await channel.deleteQueue(queue);
        await channel.assertQueue(queue, { durable: true });
      },
    });
  });

  it("stores the messages of a queue, byte for byte, each once", async () => {
    const queue = await newQueue();
    const text = '{"type":"deposit:paid","keyId":"key_1","data":{"n":1.0,"big":12345678901234567890}}';
    await send(queue, [text], { messageId: "m-1" });
    await send(queue, [text], { messageId: "m-1" });
    const { source, desk, metrics } = await openSource(fromAmqp(options(queue)));
    await source.start(desk.intake.accept, fsync);
    await until(() => (metrics.counted.get("source_redelivered amqp") ?? 0) > 0);
    await source.stop();
    expect(desk.told.map(({ id }) => id)).toEqual([`${queue}:m-1`]);
    expect(desk.told[0]?.body).toContain('{"n":1.0,"big":12345678901234567890}');
    await until(async () => (await waiting(queue)) === 0);
  });

  it("takes two messages without an id for one event only when they are alike", async () => {
    const queue = await newQueue();
    await send(queue, [paid({ data: 1 }), paid({ data: 2 }), paid({ data: 1 })]);
    await send(queue, [paid({ data: 1 })], { correlationId: "another" });
    const { source, desk } = await openSource(fromAmqp(options(queue)));
    await source.start(desk.intake.accept, fsync);
    await until(async () => desk.told.length === 3 && (await waiting(queue)) === 0);
    await source.stop();
    expect([...ledger(desk.told)]).toEqual([
      [1, 2],
      [2, 1],
    ]);
  });

  it("reads CloudEvents, as a payload and as headers", async () => {
    const queue = await newQueue();
    const event = { specversion: "1.0", id: "c-1", source: "/shop", type: "order.placed", subject: "key_1" };
    await send(queue, [{ ...event, data: { total: 1 } }], { contentType: "application/cloudevents+json" });
    const { data: _data, ...attributes } = { ...event, id: "c-2", data: 0 };
    const headers = Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [`cloudEvents:${name}`, value]),
    );
    await send(queue, [{ total: 2 }], { headers });
    const { source, desk } = await openSource(fromAmqp(options(queue)));
    await source.start(desk.intake.accept, fsync);
    await until(() => desk.told.length === 2);
    await source.stop();
    expect(desk.told.map(({ id, type, keyId }) => [id, type, keyId])).toEqual([
      ["c-1:2fc4b7c299d7c1c8af31", "order.placed", "key_1"],
      ["c-2:2fc4b7c299d7c1c8af31", "order.placed", "key_1"],
    ]);
    expect(desk.told[1]?.body).toContain('"total":2');
  });

  it("passes a message without a valid event to the queue's own dead letters, and goes on", async () => {
    const dead = await newQueue();
    const queue = await newQueue({ deadLetterExchange: "", deadLetterRoutingKey: dead });
    await send(queue, ["{", paid({ data: 1 }), paid({ keyId: "not a key" }), paid({ data: 2 })]);
    const { source, desk, metrics, log } = await openSource(fromAmqp(options(queue)));
    await source.start(desk.intake.accept, fsync);
    await until(async () => desk.told.length === 2 && (await waiting(dead)) === 2);
    await source.stop();
    expect([...ledger(desk.told)]).toEqual([
      [1, 1],
      [2, 1],
    ]);
    expect(metrics.counted.get("source_dead_lettered amqp")).toBe(2);
    const codes = log.lines
      .filter(({ message }) => message === "a message is set aside")
      .map(({ fields }) => fields["code"]);
    expect(codes).toEqual(["INVALID_JSON", "VALIDATION_FAILED"]);
    await until(async () => (await waiting(queue)) === 0);
  });

  it("publishes such a message to a dead-letter exchange with the reason, before it acknowledges it", async () => {
    const [queue, dead] = [await newQueue(), await newQueue()];
    await channel.assertExchange("dead", "fanout");
    await channel.bindQueue(dead, "dead", "");
    await send(queue, [paid({ keyId: "not a key" })], {
      messageId: "bad",
      headers: { mine: "kept", CC: ["elsewhere"] },
    });
    const { source, desk } = await openSource(fromAmqp(options(queue, { deadLetterExchange: "dead" })));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await waiting(dead)) === 1);
    await source.stop();
    const message = await channel.get(dead, { noAck: true });
    if (message === false) throw new Error("there is none");
    expect(message.properties).toMatchObject({
      messageId: "bad",
      headers: { mine: "kept", "x-relay-code": "VALIDATION_FAILED", "x-relay-queue": queue },
    });
    expect(message.properties.headers?.["x-relay-detail"]).toContain("keyId");
    expect(message.properties.headers).not.toHaveProperty("CC");
    await until(async () => (await waiting(queue)) === 0);
    expect(desk.told).toEqual([]);
  });

  it("loses no such message where the dead-letter exchange has no queue for it, and stores those behind it", async () => {
    const queue = await newQueue();
    await channel.assertExchange("nowhere", "fanout");
    await send(queue, ["{", paid({ data: 1 })]);
    const { source, desk, log } = await openSource(fromAmqp(options(queue, { deadLetterExchange: "nowhere" })));
    await source.start(desk.intake.accept, fsync);
    await until(
      () => desk.told.length === 1 && log.lines.some(({ fields }) => /no queue/.test(String(fields["error"]))),
    );
    await source.stop();
    expect(await waiting(queue)).toBe(1);
  });

  it("keeps such a message itself where its headers and the reason are more than the client can write", async () => {
    const [queue, dead] = [await newQueue(), await newQueue()];
    await channel.assertExchange("small", "fanout");
    await channel.bindQueue(dead, "small", "");
    await send(queue, ["{"], { headers: { note: "x".repeat(65_500) } });
    const { source, desk, store } = await openSource(fromAmqp(options(queue, { deadLetterExchange: "small" })), {
      clock,
    });
    await source.start(desk.intake.accept, fsync);
    await until(async () => store.rows.size === 1 && (await waiting(queue)) === 0);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
    expect(JSON.parse([...store.rows.values()][0] ?? "")).toMatchObject({ code: "INVALID_JSON", bytes: 1 });
    expect([await waiting(queue), await waiting(dead)]).toEqual([0, 0]);
  });

  it("says in /readyz that messages cannot be set aside, and goes on once they can", { timeout: 60_000 }, async () => {
    const queue = await newQueue();
    await channel.assertExchange("late", "fanout");
    const poison = ["{", "{", "{"];
    await send(queue, poison);
    const source = fromAmqp(options(queue, { deadLetterExchange: "late", prefetch: poison.length }));
    const { source: started, desk } = await openSource(source, { clock });
    await started.start(desk.intake.accept, fsync);
    await until(() => started.readiness?.()?.startsWith("3 messages cannot be set aside: the exchange late") === true);
    await send(queue, [paid()]);
    expect(desk.told).toEqual([]);
    const letters = await newQueue();
    await channel.bindQueue(letters, "late", "");
    await until(() => desk.told.length === 1 && started.readiness?.() === undefined);
    expect(await waiting(letters)).toBe(poison.length);
    await started.stop();
    expect(await waiting(queue)).toBe(0);
  });

  it("takes no more messages than prefetch says while nothing can be stored", async () => {
    const queue = await newQueue();
    await send(
      queue,
      Array.from({ length: 20 }, (_, i) => paid({ data: i })),
    );
    const { source, desk } = await openSource(fromAmqp(options(queue, { prefetch: 5 })));
    const gate = Promise.withResolvers<void>();
    await source.start(async (request) => (await gate.promise, desk.intake.accept(request)), fsync);
    await until(async () => (await waiting(queue)) === 15);
    gate.resolve();
    await until(() => desk.told.length === 20);
    await source.stop();
  });

  it("says in /readyz that its queue is missing, and starts when it is there", async () => {
    const { source, desk } = await openSource(fromAmqp(options("later")), { clock });
    await source.start(desk.intake.accept, fsync);
    await until(() => source.readiness?.()?.includes("NOT_FOUND") === true);
    await channel.assertQueue("later");
    await send("later", [paid()]);
    await until(() => desk.told.length === 1);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
  });

  it("stops soon, also while its server does not answer", async () => {
    const queue = await newQueue();
    const source = fromAmqp(options(queue));
    const took = await stopWhileSilent(source, { send: () => send(queue, [paid()]), silence: server.pause }).finally(
      server.resume,
    );
    // Long before the heartbeat gives the server up.
    expect(took).toBeLessThan(20_000);
  });

  it("acknowledges what came on a new connection, also beside messages of one that is lost", async () => {
    const queue = await newQueue();
    const opened: ChannelModel[] = [];
    const dialled = (async (...given: Parameters<typeof connect>) => {
      const made = await connect(...given);
      opened.push(made);
      return made;
    }) as typeof connect;
    const given = options(queue, { prefetch: 4 });
    const source = startAmqp(sourceContext(fromAmqp(given)), given, dialled, server.url);
    const store = desk();
    const storing = Promise.withResolvers<void>();
    let asked = 0;
    await source.start(async (...publications) => {
      asked++;
      await storing.promise;
      return store.intake.accept(...publications);
    }, fsync);
    await send(queue, [paid({ data: 0 })]);
    await until(() => asked > 0);
    // These wait behind the first one, and come again on the next connection.
    await send(
      queue,
      [1, 2, 3].map((data) => paid({ data })),
    );
    await until(async () => (await waiting(queue)) === 0);
    const [first] = opened as [ChannelModel];
    (first.connection as unknown as { readonly stream: Socket }).stream.destroy(new Error("the line is cut"));
    await until(() => opened.length > 1);
    await until(async () => (await waiting(queue)) === 0 && source.readiness?.() === undefined);
    storing.resolve();
    await send(
      queue,
      Array.from({ length: 20 }, (_, i) => paid({ data: 4 + i })),
    );
    await until(() => ledger(store.told).size === 24);
    await source.stop();
    await until(async () => (await waiting(queue)) === 0);
  });

  // RabbitMQ starts in it, which takes minutes on a busy machine.
  it(
    "stores every message once when the server is killed in mid-stream and started again",
    { timeout: 500_000 },
    async () => {
      const queue = await newQueue();
      await server.wrote(queue);
      const total = 3_000;
      const { source, desk } = await openSource(fromAmqp(options(queue, { prefetch: 50 })), { clock });
      await send(
        queue,
        Array.from({ length: total }, (_, i) => paid({ data: i })),
      );
      await source.start(desk.intake.accept, fsync);
      await until(() => desk.told.length > 200);
      await model.close();
      await server.kill();
      const before = desk.told.length;
      expect(before).toBeLessThan(total);
      await eventually("the source notices", () => source.readiness?.() !== undefined, 60_000);
      await server.start();
      await dial();
      // A server that has just started may take longer over a handshake than the source waits, and its next try comes half a minute later.
      const state = () => `${desk.told.length} of ${total}, ${source.readiness?.() ?? "ready"}`;
      const connected = (): boolean => source.readiness?.() === undefined;
      await eventually("the source is connected", connected, 180_000).catch((error: Error) => {
        throw new Error(`${error.message}: ${state()}`);
      });
      await eventually("all are stored", () => desk.told.length >= total, 120_000).catch(async (error: Error) => {
        throw new Error(`${error.message}: ${state()}, ${await waiting(queue)} in the queue`);
      });
      await source.stop();
      await until(async () => (await waiting(queue)) === 0);
      const seen = ledger(desk.told);
      expect(seen.size).toBe(total);
      expect([...seen.values()].every((times) => times === 1)).toBe(true);
    },
  );
});

describe("the options of fromAmqp()", () => {
  it("are checked before the start", () => {
    const problems = (options: unknown) => fromAmqp(options as FromAmqpOptions).problems?.map(({ path }) => path);
    expect(problems({ url: "amqp://localhost", queue: "orders" })).toEqual([]);
    expect(problems({ url: { secretFrom: { env: "AMQP_URL" } }, queue: "orders", prefetch: 10 })).toEqual([]);
    expect(problems({ url: "http://localhost", queue: "", prefetch: 0, extra: 1 })).toEqual([
      ...["extra", "url", "queue", "prefetch"],
    ]);
    expect(problems(undefined)).toEqual(["url", "queue"]);
  });
});
