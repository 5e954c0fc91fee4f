// NATS JetStream as a source, against a real server that is killed and started again.
import { expect, it } from "vitest";
import { fromNats } from "../../plugins/source/nats.ts";
import type { FromNatsOptions } from "../../plugins/source/nats/session.ts";
import { paid } from "../support/intake.ts";
import { describeMessageSource, hasty } from "../support/message-laws.ts";
import { openSource } from "../support/message-plugin.ts";
import { needs } from "../support/needs.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { until } from "../support/until.ts";
import { natsUpstream, type NatsUpstream } from "../support/upstreams/nats.ts";

const fsync = { durability: "fsync" } as const;
const event = (data: number): string => JSON.stringify(paid({ data }));

describeMessageSource({
  name: "NATS",
  missing: needs("nats"),
  start: natsUpstream,
  differences: (nats) => ({
    firstId: (stream) => new RegExp(`^${stream}-[a-z0-9]+-1$`),
    cloudPrefix: "ce-",
    deadSays: /^2 messages cannot be set aside: no stream takes the subject dead\.orders/,
    waiting: async (stream) => (await nats().state(stream)).num_pending,
    remake: {
      drop: (stream) => nats().manager.streams.delete(stream),
      async add(stream) {
        await nats().manager.streams.add({ name: stream, subjects: [stream] });
        await nats().manager.consumers.add(stream, { durable_name: "relay", ack_policy: "explicit" });
      },
    },
    missingSays: /(stream|consumer) not found/,
    stopsWithinMs: 20_000,
  }),
  more: ownLaws,
});

function ownLaws(nats: () => NatsUpstream): void {
  const options = (stream: string, more: Partial<FromNatsOptions> = {}): FromNatsOptions => ({
    ...{ servers: `nats://127.0.0.1:${nats().port}`, stream, consumer: "relay" },
    ...more,
  });
  async function started(given: FromNatsOptions, gate = Promise.resolve()) {
    const made = await openSource(fromNats(given), { clock: pacedClock(hasty) });
    await made.source.start(async (request) => (await gate, made.desk.intake.accept(request)), fsync);
    return made;
  }
  /** Keeps what passes by under a subject from now on. */
  async function listen(subject: string) {
    const texts: string[] = [];
    const callback = (_error: unknown, message: { string(): string }) => void texts.push(message.string());
    const listening = nats().connection.subscribe(subject, { callback });
    await nats().connection.flush();
    const count = (text: string) => texts.filter((one) => one === text).length;
    return { texts, count, stop: () => listening.unsubscribe() };
  }
  const drained = (stream: string) => until(async () => (await nats().left(stream)) === 0);

  it("makes no second event of a message that is delivered again", async () => {
    const stream = await nats().newStream({ ack_wait: 300e6 });
    await nats().send(stream, [event(0)]);
    // Another relay of the same consumer, which fetches the message and dies.
    const other = await nats().client.consumers.get(stream, "relay");
    expect(await other.next()).not.toBeNull();
    const { source, desk, metrics } = await started(options(stream));
    await drained(stream);
    expect(metrics.counted.get("source_redelivered nats")).toBe(1);
    expect(desk.told).toHaveLength(1);
    await source.stop();
  });

  it("keeps its hold on messages for as long as they can be neither stored nor set aside", async () => {
    const stream = await nats().newStream({ ack_wait: 600e6 });
    await nats().send(stream, [event(1), "{", event(2)]);
    const heard = await listen(`$JS.ACK.${stream}.>`);
    const gate = Promise.withResolvers<void>();
    const { source, desk } = await started(options(stream, { deadLetterSubject: "nowhere" }), gate.promise);
    // Three requests for more time fit into the time of a message: nine for each of the three are three times as long.
    await until(() => heard.count("+WPI") >= 27);
    expect((await nats().state(stream)).num_redelivered).toBe(0);
    expect(heard.count("+TERM")).toBe(0);
    gate.resolve();
    await until(async () => (await nats().left(stream)) === 1 && desk.told.length === 2);
    await source.stop();
    heard.stop();
  });

  it("terminates a message without a valid event where no subject is named, so that it never comes again", async () => {
    const stream = await nats().newStream({ ack_wait: 300e6 });
    // The server's own word that a message is over, and never comes again.
    const ended = await listen(`$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.${stream}.relay`);
    await nats().send(stream, ["{", event(1)]);
    const { source, desk } = await started(options(stream));
    await until(() => ended.texts.length === 1 && desk.told.length === 1);
    await drained(stream);
    await source.stop();
    ended.stop();
  });

  it("publishes such a message with its headers and the reason, once", async () => {
    const stream = await nats().make();
    const bad = JSON.stringify(paid({ keyId: "not a key" }));
    await nats().send(stream, [bad], { Mine: "kept", "Nats-Expected-Stream": stream });
    const { source } = await started(options(stream, { deadLetterSubject: `dead.${stream}` }));
    await drained(stream);
    await source.stop();
    const dead = await nats().manager.streams.getMessage(`${stream}-dead`, { seq: 1 });
    expect(dead?.header.get("Relay-Detail")).toContain("keyId");
    expect(dead?.header.get("Mine")).toBe("kept");
  });

  it("keeps such a message itself where it is larger with the reason than the server takes", async () => {
    const stream = await nats().make();
    const most = nats().connection.info?.max_payload ?? 0;
    await nats().client.publish(stream, "x".repeat(most));
    const { source, store } = await started(options(stream, { deadLetterSubject: `dead.${stream}` }));
    await drained(stream);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
    expect(JSON.parse([...store.rows.values()][0] ?? "")).toMatchObject({ code: "PAYLOAD_TOO_LARGE", bytes: most });
    expect(await nats().dead(stream)).toEqual([]);
  });

  it("refuses a consumer whose acknowledgements would lose messages, and says why in /readyz", async () => {
    const stream = await nats().newStream();
    await nats().manager.consumers.add(stream, { durable_name: "all", ack_policy: "all" });
    const { source } = await started(options(stream, { consumer: "all" }));
    await until(() => source.readiness?.()?.includes('ack policy "explicit"') === true);
    await source.stop();
  });

  it("notices that its consumer is removed while it waits for messages, and goes on with a new one", async () => {
    const stream = await nats().newStream();
    const { source, desk } = await started(options(stream));
    await until(async () => (await nats().state(stream)).num_waiting === 1);
    await nats().manager.consumers.delete(stream, "relay");
    await until(() => source.readiness?.() !== undefined);
    await nats().manager.consumers.add(stream, { durable_name: "relay", ack_policy: "explicit" });
    await nats().send(stream, [event(0)]);
    await drained(stream);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
    expect(desk.told).toHaveLength(1);
  });
}
