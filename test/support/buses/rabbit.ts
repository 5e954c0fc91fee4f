/** RabbitMQ: an exchange `deposits`, with a queue for each routing key. */
import { Connection } from "rabbitmq-client";
import { toAmqp } from "../../../plugins/transport/amqp.ts";
import { atLeast, type Arrived, type BusHarness, type FarBus } from "../bus-laws.ts";
import { needs } from "../needs.ts";
import { startRabbit } from "../rabbitmq.ts";

interface FarMessage extends Arrived {
  readonly durable: boolean | undefined;
}

interface FarRabbit extends FarBus {
  readonly client: Connection;
  /** Makes a queue that gets what has the routing key. */
  queue(name: string, routingKey: string, more?: Readonly<Record<string, unknown>>): Promise<void>;
  arrived(url: string, least: number): Promise<readonly FarMessage[]>;
}

export const rabbitBus: BusHarness<FarRabbit> = {
  system: "RabbitMQ",
  missing: needs("rabbitmq"),
  make: toAmqp,
  options: (at) => ({ name: "bus", url: `amqp://guest:guest@${at}` }),
  everyOption: { name: "bus", url: { secretFrom: { file: "bus-url" } }, tls: { caFile: "ca" } },
  wrongOptions: [
    [{ url: "amqps://user:secret@rabbit/vhost" }],
    [{ name: "B", url: "http://:s3cret@x" }, "name", "url"],
  ],
  urls: {
    rule: "an exchange",
    right: ["deposits", "deposits/deposits.paid", "a_b-c.d/0"],
    wrong: ["", "/queue", "a/", "a/b/c", "a b", "a/#", "a/*", "a%2f", `${"x".repeat(128)}/k`],
  },
  place: /^200 exchange deposits, routing key \w+: confirmed$/,
  refused: ["amqp://bus/no-such-exchange/key", /no exchange 'no-such-exchange' in vhost/],
  // Each exchange has a channel.
  opens: "amqp://bus/deposits/nobody",
  async start() {
    const server = await startRabbit();
    const client = new Connection({ url: server.url, retryLow: 100, retryHigh: 500 });
    client.on("error", () => {});
    await client.exchangeDeclare({ exchange: "deposits", type: "topic", durable: true });
    const queue: FarRabbit["queue"] = async (name, routingKey, more = {}) => {
      await client.queueDeclare({ queue: name, durable: true, arguments: more });
      await client.queueBind({ queue: name, exchange: "deposits", routingKey });
    };
    const found = new Map<string, FarMessage[]>();
    return {
      at: `127.0.0.1:${server.port}`,
      client,
      queue,
      server,
      async destination(name) {
        await queue(name, name);
        const url = `amqp://bus/deposits/${name}`;
        const messages: FarMessage[] = [];
        found.set(url, messages);
        // Each is acknowledged when it has been taken in, so that a kill takes none away.
        client
          .createConsumer({ queue: name, queueOptions: { durable: true } }, (message) => {
            const { headers = {}, body, messageId = "", durable } = message;
            messages.push({ headers, body: body as Buffer, messageId, durable });
          })
          .on("error", () => {});
        return url;
      },
      arrived: (url, least) => atLeast(least, () => found.get(url) ?? []),
      lasts: (url) => server.wrote(url.slice(url.lastIndexOf("/") + 1)),
      async [Symbol.asyncDispose]() {
        client.unsafeDestroy();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};
