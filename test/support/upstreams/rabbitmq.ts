/** RabbitMQ as an upstream: a queue, and an exchange with a queue of dead letters. */
import { connect, type Channel, type ChannelModel, type ConfirmChannel } from "amqplib";
import { fromAmqp } from "../../../plugins/source/amqp.ts";
import type { Upstream } from "../message-laws.ts";
import { startRabbit } from "../rabbitmq.ts";

export interface RabbitUpstream extends Upstream {
  readonly url: string;
  channel(): ConfirmChannel;
  newQueue(options?: Parameters<Channel["assertQueue"]>[1]): Promise<string>;
  sendWith(queue: string, payloads: readonly string[], options: object): Promise<void>;
}

export async function rabbitUpstream(): Promise<RabbitUpstream> {
  const server = await startRabbit();
  let model: ChannelModel;
  let channel: ConfirmChannel;
  let count = 0;
  async function dial(): Promise<void> {
    model = await connect(server.url);
    model.on("error", () => {});
    channel = await model.createConfirmChannel();
    channel.on("error", () => {});
  }
  await dial();
  async function newQueue(options: Parameters<Channel["assertQueue"]>[1] = {}): Promise<string> {
    const queue = `orders${++count}`;
    await channel.assertQueue(queue, { durable: true, ...options });
    return queue;
  }
  async function sendWith(queue: string, payloads: readonly string[], options: object): Promise<void> {
    // Until then a kill would take a queue with it.
    if (payloads.length > 1_000) await server.wrote(queue);
    for (const one of payloads)
      channel.sendToQueue(queue, Buffer.from(one), { persistent: true, contentType: "application/json", ...options });
    await channel.waitForConfirms();
  }
  return {
    server,
    port: server.port,
    url: server.url,
    channel: () => channel,
    newQueue,
    sendWith,
    dial,
    from: fromAmqp,
    factory: "fromAmqp",
    async make() {
      const queue = await newQueue();
      await channel.assertQueue(`${queue}-dead`, { durable: true });
      await channel.assertExchange(`${queue}.dead`, "fanout");
      await channel.bindQueue(`${queue}-dead`, `${queue}.dead`, "");
      return queue;
    },
    options: (queue, prefetch, port = server.port) => ({
      ...{ url: `amqp://guest:guest@127.0.0.1:${port}`, queue, deadLetterExchange: `${queue}.dead` },
      ...(prefetch !== undefined && { prefetch }),
    }),
    send: (queue, payloads, headers) => sendWith(queue, payloads, headers ? { headers } : {}),
    // Messages that the source holds are counted only when they are given back.
    left: async (queue) => (await channel.checkQueue(queue)).messageCount,
    async dead(queue) {
      const found = [];
      const all: Awaited<ReturnType<typeof channel.get>>[] = [];
      for (let one = await channel.get(`${queue}-dead`); one !== false; one = await channel.get(`${queue}-dead`)) {
        all.push(one);
        found.push({ payload: one.content.toString(), code: one.properties.headers?.["x-relay-code"] as unknown });
      }
      for (const one of all) if (one !== false) channel.nack(one);
      return found;
    },
    async refuseDead(queue) {
      await channel.unbindQueue(`${queue}-dead`, `${queue}.dead`, "");
      return () => channel.bindQueue(`${queue}-dead`, `${queue}.dead`, "");
    },
    async [Symbol.asyncDispose]() {
      await model.close().catch(() => undefined);
      await server[Symbol.asyncDispose]();
    },
  };
}
