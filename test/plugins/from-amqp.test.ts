// RabbitMQ as a source, against a real server that is killed and started again.
import type { Socket } from "node:net";
import { connect, type Channel, type ChannelModel, type ConsumeMessage } from "amqplib";
import { describe, expect, it } from "vitest";
import { fromAmqp } from "../../plugins/source/amqp.ts";
import { startAmqp, type FromAmqpOptions } from "../../plugins/source/amqp/session.ts";
import { Settlement } from "../../plugins/source/amqp/messages.ts";
import type { Upstream as Learned } from "../conformance/source.ts";
import { desk, paid } from "../support/intake.ts";
import { describeMessageSource, hasty } from "../support/message-laws.ts";
import { ledger, openSource, sourceContext } from "../support/message-plugin.ts";
import { needs } from "../support/needs.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { until } from "../support/until.ts";
import { rabbitUpstream, type RabbitUpstream } from "../support/upstreams/rabbitmq.ts";

const fsync = { durability: "fsync" } as const;
const event = (data: number): string => JSON.stringify(paid({ data }));

/** A source on connections of the test's, which may look at what passes. */
function startedOn(options: FromAmqpOptions, dial: typeof connect, given: Parameters<typeof sourceContext>[1] = {}) {
  return startAmqp(
    sourceContext(fromAmqp(options), given),
    { ...options, source: "amqp" },
    dial,
    options.url as string,
  );
}

describeMessageSource({
  name: "RabbitMQ",
  missing: needs("rabbitmq"),
  start: rabbitUpstream,
  differences: (rabbit) => ({
    firstId: (queue) => new RegExp(`^${queue}:[0-9a-f]{40}$`),
    cloudPrefix: "cloudEvents:",
    deadSays: /^2 messages cannot be set aside: the exchange orders\d+\.dead has no queue/,
    waiting: (queue) => rabbit().left(queue),
    remake: {
      drop: (queue) => rabbit().channel().deleteQueue(queue),
      add: (queue) => rabbit().channel().assertQueue(queue, { durable: true }),
    },
    missingSays: /NOT_FOUND/,
    stopsWithinMs: 20_000,
    async overheard(queue, given) {
      let learned: Learned | undefined;
      const dial = (async (...to: Parameters<typeof connect>) => {
        const made = await connect(...to);
        const create = made.createChannel.bind(made);
        made.createChannel = async () => {
          const own = await create();
          const [ack, nack] = [own.ack.bind(own), own.nack.bind(own)];
          own.ack = (message, all) => (ack(message, all), (learned = "acknowledged"));
          own.nack = (message, all, again) => (
            nack(message, all, again),
            (learned = again === true ? "later" : "refused")
          );
          return own;
        };
        return made;
      }) as typeof connect;
      const source = startedOn({ url: rabbit().url, queue }, dial, given);
      return { source, learned: () => learned };
    },
  }),
  more: ownLaws,
});

function ownLaws(rabbit: () => RabbitUpstream): void {
  const channel = () => rabbit().channel();
  const waiting = (queue: string) => rabbit().left(queue);

  it("takes two messages for one event by their message-id, and without one only when they are alike", async () => {
    const queue = await rabbit().newQueue();
    const { sendWith } = rabbit();
    for (const messageId of ["m-1", "m-1"]) await sendWith(queue, [event(0)], { messageId });
    await sendWith(queue, [event(1), event(2), event(1)], {});
    await sendWith(queue, [event(1)], { correlationId: "another" });
    const { source, desk, log } = await openSource(fromAmqp({ url: rabbit().url, queue }));
    await source.start(desk.intake.accept, fsync);
    await until(async () => desk.told.length === 4 && (await waiting(queue)) === 0);
    await source.stop();
    expect(log.lines.filter(({ message }) => message.includes("taken for one that was stored"))).toHaveLength(1);
    expect(desk.told[0]?.id).toBe(`${queue}:m-1`);
    expect([...ledger(desk.told)]).toEqual([
      [0, 1],
      [1, 2],
      [2, 1],
    ]);
  });

  it("passes a message without a valid event to the queue's own dead letters where no exchange is named", async () => {
    const dead = await rabbit().newQueue();
    const queue = await rabbit().newQueue({ deadLetterExchange: "", deadLetterRoutingKey: dead });
    await rabbit().send(queue, ["{", event(1)]);
    const { source, desk } = await openSource(fromAmqp({ url: rabbit().url, queue }));
    await source.start(desk.intake.accept, fsync);
    await until(async () => desk.told.length === 1 && (await waiting(dead)) === 1);
    await source.stop();
    expect(await waiting(queue)).toBe(0);
  });

  it("publishes such a message with its properties and the reason, and to no further queue", async () => {
    const queue = await rabbit().make();
    const bad = JSON.stringify(paid({ keyId: "not a key" }));
    await rabbit().sendWith(queue, [bad], { messageId: "bad", headers: { mine: "kept", CC: ["elsewhere"] } });
    const { source, desk } = await openSource(fromAmqp(rabbit().options(queue) as unknown as FromAmqpOptions));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await waiting(`${queue}-dead`)) === 1);
    await source.stop();
    const message = await channel().get(`${queue}-dead`, { noAck: true });
    const { properties } = message === false ? expect.fail("there is none") : message;
    expect(properties).toMatchObject({ messageId: "bad", headers: { mine: "kept", "x-relay-queue": queue } });
    expect(properties.headers?.["x-relay-detail"]).toContain("keyId");
    expect(properties.headers).not.toHaveProperty("CC");
  });

  it("keeps such a message itself where its headers and the reason are more than the client can write", async () => {
    const queue = await rabbit().make();
    await rabbit().sendWith(queue, ["{"], { headers: { note: "x".repeat(65_500) } });
    const { source, desk, store } = await openSource(fromAmqp(rabbit().options(queue) as unknown as FromAmqpOptions));
    await source.start(desk.intake.accept, fsync);
    await until(() => store.rows.size === 1);
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
    expect(JSON.parse([...store.rows.values()][0] ?? "")).toMatchObject({ code: "INVALID_JSON", bytes: 1 });
    expect([await waiting(queue), await waiting(`${queue}-dead`)]).toEqual([0, 0]);
  });

  it("acknowledges what came on a new connection, also beside messages of one that is lost", async () => {
    const queue = await rabbit().newQueue();
    const opened: ChannelModel[] = [];
    const dial = (async (...to: Parameters<typeof connect>) => {
      opened.push(await connect(...to));
      return opened.at(-1);
    }) as typeof connect;
    const source = startedOn({ url: rabbit().url, queue, prefetch: 4 }, dial, { clock: pacedClock(hasty) });
    const store = desk();
    const storing = Promise.withResolvers<void>();
    let asked = 0;
    await source.start(async (...publications) => {
      asked++;
      await storing.promise;
      return store.intake.accept(...publications);
    }, fsync);
    await rabbit().send(queue, [event(0)]);
    await until(() => asked > 0);
    // These wait behind the first one, and come again on the next connection.
    await rabbit().send(queue, [1, 2, 3].map(event));
    await until(async () => (await waiting(queue)) === 0);
    const [first] = opened as [ChannelModel];
    (first.connection as unknown as { readonly stream: Socket }).stream.destroy(new Error("the line is cut"));
    await until(() => opened.length > 1);
    await until(async () => (await waiting(queue)) === 0 && source.readiness?.() === undefined);
    storing.resolve();
    await rabbit().send(
      queue,
      Array.from({ length: 20 }, (_, i) => event(4 + i)),
    );
    await until(() => ledger(store.told).size === 24);
    await source.stop();
    await until(async () => (await waiting(queue)) === 0);
  });
}

describe("the acknowledgements of a channel", () => {
  const messages = (from: number, to: number): ConsumeMessage[] =>
    Array.from({ length: to - from + 1 }, (_, i) => ({ fields: { deliveryTag: from + i } }) as ConsumeMessage);

  /** A channel that does with its tags what a broker does: a multiple acknowledgement takes all up to its tag. */
  function channel(delivered: number) {
    const open = new Set(Array.from({ length: delivered }, (_, i) => i + 1));
    let frames = 0;
    const ack: Channel["ack"] = ({ fields: { deliveryTag } }, all = false) => {
      frames++;
      if (!open.has(deliveryTag)) throw new Error(`unknown delivery tag ${deliveryTag}`);
      for (const tag of all ? [...open].filter((one) => one <= deliveryTag) : [deliveryTag]) open.delete(tag);
    };
    const settlement = new Settlement({ ack, nack: ({ fields }) => void open.delete(fields.deliveryTag) });
    for (const message of messages(1, delivered)) settlement.hold(message);
    return { settlement, open, frames: () => frames };
  }

  it("are one frame for many messages, where none before them is open", () => {
    const { settlement, open, frames } = channel(1_000);
    settlement.acknowledge(messages(1, 1_000));
    expect([open.size, frames()]).toEqual([0, 1]);
  });

  it("leave out a message that stays open, and are one frame again once it is settled", () => {
    const { settlement, open, frames } = channel(30);
    settlement.acknowledge([...messages(1, 2), ...messages(4, 10)]);
    settlement.acknowledge(messages(11, 20));
    expect([...open]).toEqual([3, ...Array.from({ length: 10 }, (_, i) => 21 + i)]);
    settlement.refuse(messages(3, 3)[0] as ConsumeMessage, false);
    const before = frames();
    settlement.acknowledge(messages(21, 30));
    expect([open.size, frames() - before]).toEqual([0, 1]);
  });
});
