// NATS JetStream as a source, against a real server that is killed and started again.
import {
  jetstream,
  jetstreamManager,
  type ConsumerConfig,
  type JetStreamClient,
  type JetStreamManager,
} from "@nats-io/jetstream";
import { connect, headers, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromNats } from "../../plugins/source/nats.ts";
import type { FromNatsOptions } from "../../plugins/source/nats/session.ts";
import { describeSource, type Upstream } from "../conformance/source.ts";
import { paid } from "../support/intake.ts";
import { describeMessageSource } from "../support/message-laws.ts";
import { ledger, openSource, sourceContext, stopWhileSilent } from "../support/message-plugin.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { startNats, type NatsServer } from "../support/nats.ts";
import { needs } from "../support/needs.ts";
import { quietLog } from "../support/quiet.ts";
import { until } from "../support/until.ts";

const missing = needs("nats");
/** Pauses before a message is offered again are short; what bounds the end of a connection (2 s) stays. */
const clock = pacedClock((ms) => (ms > 1_500 ? ms : Math.min(ms, 100)));
const fsync = { durability: "fsync" } as const;

describe.skipIf(missing !== undefined)(`NATS as a source (${missing ?? "a real server"})`, () => {
  let server: NatsServer;
  let connection: NatsConnection;
  let manager: JetStreamManager;
  let client: JetStreamClient;
  let count = 0;

  async function dial(): Promise<void> {
    connection = await connect({ servers: server.url });
    manager = await jetstreamManager(connection);
    client = jetstream(connection);
  }
  beforeAll(async () => {
    server = await startNats();
    await dial();
  });
  afterAll(async () => {
    await connection?.close();
    await server?.[Symbol.asyncDispose]();
  });

  async function newStream(more: Partial<ConsumerConfig> = {}): Promise<string> {
    const stream = `orders${++count}`;
    await manager.streams.add({ name: stream, subjects: [stream] });
    await manager.consumers.add(stream, { durable_name: "relay", ack_policy: "explicit", ...more });
    return stream;
  }
  async function send(subject: string, payloads: readonly unknown[], given: Readonly<Record<string, string>> = {}) {
    const out = headers();
    for (const [name, value] of Object.entries(given)) out.set(name, value);
    const text = (one: unknown): string => (typeof one === "string" ? one : JSON.stringify(one));
    await Promise.all(payloads.map((one) => client.publish(subject, text(one), { headers: out })));
  }
  const options = (stream: string, more: Partial<FromNatsOptions> = {}): FromNatsOptions => ({
    ...{ servers: server.url, stream, consumer: "relay" },
    ...more,
  });
  const state = (stream: string) => manager.consumers.info(stream, "relay");
  /** What passes by under a subject from now on. */
  async function listen(subject: string) {
    const texts: string[] = [];
    const listening = connection.subscribe(subject, {
      callback: (_error, message) => void texts.push(message.string()),
    });
    await connection.flush();
    return {
      texts,
      count: (text: string) => texts.filter((one) => one === text).length,
      stop: () => listening.unsubscribe(),
    };
  }
  /** Until nothing waits and nothing is unacknowledged. */
  const drained = (stream: string) =>
    until(async () => {
      const { num_pending, num_ack_pending } = await state(stream);
      return num_pending === 0 && num_ack_pending === 0;
    });

  describe("keeps the law of a source:", () => {
    interface Told {
      upstream: PromiseWithResolvers<Upstream>;
    }
    const told = new WeakMap<object, Told>();
    describeSource(it, {
      async open() {
        const stream = await newStream();
        const state: Told = { upstream: Promise.withResolvers() };
        const log = quietLog();
        const warn: typeof log.warn = (message) => {
          if (message.startsWith("a source waits")) state.upstream.resolve("later");
        };
        const words: Readonly<Record<string, Upstream>> = {
          "+ACK": "acknowledged",
          "+TERM": "refused",
          "-NAK": "later",
        };
        // What the source says to the server, on its way there.
        const heard = connection.subscribe(`$JS.ACK.${stream}.>`, {
          callback(_error, message) {
            const word = words[message.string()];
            if (word !== undefined) state.upstream.resolve(word);
          },
        });
        const plugin = fromNats(options(stream));
        const source = await plugin.setup(sourceContext(plugin, { log: { ...log, warn }, clock }));
        const under = {
          source,
          async publish(text: string) {
            await send(stream, [text]);
            return state.upstream.promise;
          },
          async [Symbol.asyncDispose]() {
            await source.stop();
            heard.unsubscribe();
          },
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
      make: newStream,
      read: (stream) => fromNats(options(stream, { maxInFlight: 1 })),
      send: (stream, payload) => send(stream, [payload]),
      async remake(stream) {
        await manager.streams.delete(stream);
        await manager.streams.add({ name: stream, subjects: [stream] });
        await manager.consumers.add(stream, { durable_name: "relay", ack_policy: "explicit" });
      },
    });
  });

  it("stores the messages of a stream, byte for byte, under ids of their places", async () => {
    const stream = await newStream();
    await send(stream, ['{"type":"deposit:paid","keyId":"key_1","data":{"n":1.0}}', paid({ id: "mine" })]);
    const { source, desk } = await openSource(fromNats(options(stream)));
    await source.start(desk.intake.accept, fsync);
    await drained(stream);
    await source.stop();
    expect(desk.told.map(({ id }) => id)).toEqual([
      expect.stringMatching(new RegExp(`^${stream}-[a-z0-9]+-1$`)),
      "mine",
    ]);
    expect(desk.told[0]?.body).toContain('{"n":1.0}');
  });

  it("makes no second event of a message that is delivered again", async () => {
    const stream = await newStream({ ack_wait: 300e6 });
    await send(stream, [paid()]);
    // Another relay of the same consumer, which fetches the message and dies.
    const other = await client.consumers.get(stream, "relay");
    expect(await other.next()).not.toBeNull();
    const first = await openSource(fromNats(options(stream)));
    await first.source.start(first.desk.intake.accept, fsync);
    await drained(stream);
    expect(first.metrics.counted.get("source_redelivered nats")).toBe(1);
    expect(first.desk.told).toHaveLength(1);
    await first.source.stop();
  });

  it("takes a stream that was made again under its name for another one", async () => {
    const stream = await newStream();
    const { source, desk } = await openSource(fromNats(options(stream)));
    await source.start(desk.intake.accept, fsync);
    await send(stream, [paid({ data: 1 })]);
    await drained(stream);
    await manager.streams.delete(stream);
    await manager.streams.add({ name: stream, subjects: [stream] });
    await manager.consumers.add(stream, { durable_name: "relay", ack_policy: "explicit" });
    await send(stream, [paid({ data: 2 })]);
    await until(() => desk.told.length === 2);
    await source.stop();
    expect(ledger(desk.told).size).toBe(2);
  });

  it("keeps its hold on messages for as long as nothing can be stored", async () => {
    const stream = await newStream({ ack_wait: 600e6 });
    await send(stream, [paid({ data: 1 }), paid({ data: 2 })]);
    const heard = await listen(`$JS.ACK.${stream}.>`);
    const { source, desk } = await openSource(fromNats(options(stream)));
    const gate = Promise.withResolvers<void>();
    await source.start(async (request) => (await gate.promise, desk.intake.accept(request)), fsync);
    // Three requests for more time fit into the time of a message: nine for each of the two are three times as long.
    await until(() => heard.count("+WPI") >= 18);
    expect((await state(stream)).num_redelivered).toBe(0);
    gate.resolve();
    await drained(stream);
    await source.stop();
    heard.stop();
    expect(desk.told).toHaveLength(2);
  });

  it("holds no more messages than maxInFlight says while nothing can be stored", async () => {
    const stream = await newStream({ ack_wait: 3_000e6, max_ack_pending: -1 });
    await send(
      stream,
      Array.from({ length: 100 }, (_, i) => paid({ data: i })),
    );
    const heard = await listen(`$JS.ACK.${stream}.>`);
    const { source, desk } = await openSource(fromNats(options(stream, { maxInFlight: 10 })));
    const gate = Promise.withResolvers<void>();
    await source.start(async (request) => (await gate.promise, desk.intake.accept(request)), fsync);
    // More time was asked for three times: what else was sent ahead has long arrived.
    await until(() => heard.count("+WPI") >= 30);
    expect((await state(stream)).num_ack_pending).toBe(10);
    gate.resolve();
    await drained(stream);
    await source.stop();
    heard.stop();
    expect(ledger(desk.told).size).toBe(100);
  });

  it("reads CloudEvents, as a payload and as headers", async () => {
    const stream = await newStream();
    const event = { specversion: "1.0", id: "c-1", source: "/shop", type: "order.placed", subject: "key_1" };
    await send(stream, [{ ...event, data: { total: 1 } }]);
    const attributes = Object.entries({ ...event, id: "c-2" }).map(([name, value]) => [`ce-${name}`, value]);
    await send(stream, [{ total: 2 }], Object.fromEntries(attributes) as Record<string, string>);
    const { source, desk } = await openSource(fromNats(options(stream)));
    await source.start(desk.intake.accept, fsync);
    await drained(stream);
    await source.stop();
    expect(desk.told.map(({ id, type, keyId }) => [id, type, keyId])).toEqual([
      ["c-1:2fc4b7c299d7c1c8af31", "order.placed", "key_1"],
      ["c-2:2fc4b7c299d7c1c8af31", "order.placed", "key_1"],
    ]);
  });

  it("terminates a message without a valid event, so that it never comes again, and goes on", async () => {
    const stream = await newStream({ ack_wait: 300e6 });
    await send(stream, ["{", paid({ data: 1 }), paid({ keyId: "not a key" }), paid({ data: 2 })]);
    // The server's own word that a message is over, and never comes again.
    const ended = await listen(`$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.${stream}.relay`);
    const { source, desk, metrics } = await openSource(fromNats(options(stream)));
    await source.start(desk.intake.accept, fsync);
    await until(() => ended.texts.length === 2);
    await drained(stream);
    await source.stop();
    ended.stop();
    expect(ledger(desk.told).size).toBe(2);
    expect(metrics.counted.get("source_dead_lettered nats")).toBe(2);
  });

  it("publishes such a message to the dead-letter subject with the reason, once", async () => {
    const stream = await newStream();
    await manager.streams.add({ name: `${stream}-dead`, subjects: [`dead.${stream}`] });
    await send(stream, [paid({ keyId: "not a key" })], { Mine: "kept", "Nats-Expected-Stream": stream });
    const { source, desk } = await openSource(fromNats(options(stream, { deadLetterSubject: `dead.${stream}` })));
    await source.start(desk.intake.accept, fsync);
    await drained(stream);
    await source.stop();
    const dead = await manager.streams.getMessage(`${stream}-dead`, { seq: 1 });
    expect(JSON.parse(dead?.string() ?? "")).toMatchObject({ keyId: "not a key" });
    expect(dead?.header.get("Relay-Code")).toBe("VALIDATION_FAILED");
    expect(dead?.header.get("Relay-Detail")).toContain("keyId");
    expect(dead?.header.get("Mine")).toBe("kept");
    expect(desk.told).toEqual([]);
  });

  it("keeps such a message itself where it is larger with the reason than the server takes", async () => {
    const stream = await newStream();
    await manager.streams.add({ name: `${stream}-dead`, subjects: [`dead.${stream}`] });
    const most = connection.info?.max_payload ?? 0;
    await client.publish(stream, "x".repeat(most));
    const given = options(stream, { deadLetterSubject: `dead.${stream}` });
    const { source, desk, store } = await openSource(fromNats(given), { clock });
    await source.start(desk.intake.accept, fsync);
    await drained(stream);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
    expect(JSON.parse([...store.rows.values()][0] ?? "")).toMatchObject({ code: "PAYLOAD_TOO_LARGE", bytes: most });
    expect((await manager.streams.info(`${stream}-dead`)).state.messages).toBe(0);
  });

  it("says in /readyz that no stream takes the dead-letter subject, and goes on once one does", async () => {
    const stream = await newStream({ ack_wait: 600e6 });
    await send(stream, ["{", "{", paid({ data: 1 })]);
    const heard = await listen(`$JS.ACK.${stream}.>`);
    const given = options(stream, { deadLetterSubject: `late.${stream}` });
    const { source, desk, metrics } = await openSource(fromNats(given), { clock });
    await source.start(desk.intake.accept, fsync);
    await until(() => source.readiness?.()?.startsWith("2 messages cannot be set aside: ") === true);
    // Those behind them are stored, and the two are not delivered again meanwhile.
    await until(() => desk.told.length === 1);
    await until(() => heard.count("+WPI") >= 12);
    expect(source.readiness?.()).toContain(`no stream takes the subject late.${stream}`);
    expect((await state(stream)).num_redelivered).toBe(0);
    expect(heard.count("+TERM")).toBe(0);
    await manager.streams.add({ name: `${stream}-late`, subjects: [`late.${stream}`] });
    await drained(stream);
    await until(() => source.readiness?.() === undefined);
    heard.stop();
    await source.stop();
    expect((await manager.streams.info(`${stream}-late`)).state.messages).toBe(2);
    expect(metrics.counted.get("source_dead_lettered nats")).toBe(2);
  });

  it("refuses a consumer whose acknowledgements would lose messages, and says why in /readyz", async () => {
    const stream = await newStream();
    await manager.consumers.add(stream, { durable_name: "all", ack_policy: "all" });
    const { source, desk } = await openSource(fromNats(options(stream, { consumer: "all" })));
    await source.start(desk.intake.accept, fsync);
    await until(() => source.readiness?.()?.includes('ack policy "explicit"') === true);
    await source.stop();
  });

  it("says in /readyz that its consumer is missing, and starts when it is there", async () => {
    const stream = await newStream();
    const { source, desk } = await openSource(fromNats(options(stream, { consumer: "late" })));
    await source.start(desk.intake.accept, fsync);
    await until(() => source.readiness?.()?.includes("consumer not found") === true);
    await manager.consumers.add(stream, { durable_name: "late", ack_policy: "explicit" });
    await send(stream, [paid()]);
    await until(() => desk.told.length === 1);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
  });

  it("notices that its consumer is removed while it waits for messages, and goes on with a new one", async () => {
    const stream = await newStream();
    const { source, desk } = await openSource(fromNats(options(stream)));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await state(stream)).num_waiting === 1);
    await manager.consumers.delete(stream, "relay");
    await until(() => source.readiness?.() !== undefined);
    await manager.consumers.add(stream, { durable_name: "relay", ack_policy: "explicit" });
    await send(stream, [paid()]);
    await drained(stream);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
    expect(desk.told).toHaveLength(1);
  });

  it("stops soon, also while its server does not answer", async () => {
    const stream = await newStream();
    const source = fromNats(options(stream));
    const took = await stopWhileSilent(source, { send: () => send(stream, [paid()]), silence: server.pause }).finally(
      server.resume,
    );
    expect(took).toBeLessThan(20_000);
  });

  it("stores every message once when the server is killed in mid-stream and started again", async () => {
    const stream = await newStream({ ack_wait: 1_000e6 });
    const total = 3_000;
    await send(
      stream,
      Array.from({ length: total }, (_, i) => paid({ data: i })),
    );
    const { source, desk } = await openSource(fromNats(options(stream, { maxInFlight: 50 })));
    await source.start(desk.intake.accept, fsync);
    await until(() => desk.told.length > 200);
    await connection.close();
    await server.kill();
    expect(desk.told.length).toBeLessThan(total);
    await until(() => source.readiness?.() !== undefined);
    await server.start();
    await dial();
    await drained(stream);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
    const seen = ledger(desk.told);
    expect(seen.size).toBe(total);
    expect([...seen.values()].every((times) => times === 1)).toBe(true);
  });
});

describe("the options of fromNats()", () => {
  it("are checked before the start", () => {
    const problems = (options: unknown) => fromNats(options as FromNatsOptions).problems?.map(({ path }) => path);
    const right = { servers: "nats://localhost:4222", stream: "ORDERS", consumer: "relay" };
    expect(problems(right)).toEqual([]);
    expect(
      problems({ ...right, servers: ["a:4222", "tls://b"], token: { secretFrom: { env: "NATS_TOKEN" } } }),
    ).toEqual([]);
    expect(problems({ ...right, servers: "nats://me:secret@host", maxInFlight: 0, password: 7, extra: 1 })).toEqual([
      ...["extra", "servers", "maxInFlight", "password"],
    ]);
    expect(problems(undefined)).toEqual(["servers", "stream", "consumer"]);
  });
});
