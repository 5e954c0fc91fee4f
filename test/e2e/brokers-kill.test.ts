// Whole relays between a real upstream and their storage, killed -9 in mid-stream, and upstream too: a ledger of all events.
import { describe, expect, it } from "vitest";
import { testFolder } from "../support/folder.ts";
import { needsKafka } from "../support/kafka.ts";
import { expectNothingLost } from "../support/ledger.ts";
import { needsMoto } from "../support/moto.ts";
import { needs } from "../support/needs.ts";
import { needsPubSub } from "../support/pubsub.ts";
import { kafkaUpstream } from "../support/upstreams/kafka.ts";
import { mqttUpstream } from "../support/upstreams/mqtt.ts";
import { natsUpstream } from "../support/upstreams/nats.ts";
import { postgresUpstream } from "../support/upstreams/postgres.ts";
import { pubSubUpstream } from "../support/upstreams/pubsub.ts";
import { rabbitUpstream } from "../support/upstreams/rabbitmq.ts";
import { redisUpstream } from "../support/upstreams/redis.ts";
import { sqsUpstream } from "../support/upstreams/sqs.ts";

const TOTAL = 4_000;

describe.each([
  ["RabbitMQ", needs("rabbitmq"), rabbitUpstream],
  ["NATS", needs("nats"), natsUpstream],
  ["Kafka", needsKafka(), kafkaUpstream],
  ["a Redis stream", needs("redis"), redisUpstream],
  ["PostgreSQL", needs("postgres"), postgresUpstream],
  // The time that moto takes for a message grows with those that it has.
  ["SQS", needsMoto(), sqsUpstream, 400],
  // The fake hands out a few messages each 10 ms.
  ["Pub/Sub", needsPubSub(), pubSubUpstream, 1_000],
  ["MQTT", needs("mosquitto"), mqttUpstream],
] as const)("a relay that takes events from %s", (name, missing, start, total: number = TOTAL) => {
  it(`loses none and stores none twice when relay and server are killed in mid-stream (${missing ?? name})`, async ({
    skip,
  }) => {
    skip(missing !== undefined, missing);
    await using upstream = await start();
    const queue = await upstream.make();
    const event = (i: number): string => JSON.stringify({ type: "order.placed", keyId: "key_1", data: i });
    await upstream.send(
      queue,
      Array.from({ length: total }, (_, i) => event(i)),
    );
    await expectNothingLost({
      folder: testFolder(),
      source: `${upstream.factory}(${JSON.stringify(upstream.options(queue, 100))})`,
      imports: [upstream.factory],
      total,
      kills: 2,
      left: () => upstream.left(queue),
      async restart() {
        await upstream.server.kill();
        await upstream.server.start();
        await upstream.dial?.();
      },
    });
    expect(await upstream.left(queue)).toBe(0);
  });
});
