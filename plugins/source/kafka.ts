/**
 * The source for Kafka: topics, as a member of a consumer group. The offset of a message is committed when its events and
 * those before it in its partition are stored, and not before, so that a crash on either side loses none.
 */
import { anything, choice, optional, text, texts, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { KAFKA_LOGIN, KAFKA_PACKAGES, loadKafka } from "../brokers/kafka.ts";
import type { FromKafkaOptions } from "./kafka/session.ts";
import { messageSource } from "./messages/plugin.ts";

/** Publishes the messages of Kafka topics. Needs the package `@platformatic/kafka`. */
export function fromKafka(options: FromKafkaOptions): Plugin<"source", Source> {
  return messageSource({
    factory: "fromKafka",
    kind: "kafka",
    options,
    rules: {
      brokers: texts("a list of host:port", /^[^\s/:]+:\d{1,5}$/),
      topics: texts("a list of topics", /^[\w.-]{1,249}$/),
      groupId: text("the name of a consumer group"),
      from: optional(choice("earliest", "latest")),
      maxInFlight: optional(whole(1, 100_000)),
      deadLetterTopic: optional(text("a topic")),
      sasl: KAFKA_LOGIN,
      tls: anything,
    },
    packages: KAFKA_PACKAGES,
    secrets: { "sasl.password": options?.sasl?.password },
    async open(ctx, options) {
      const kafka = await loadKafka("fromKafka");
      const { startKafka } = await import("./kafka/session.ts");
      return startKafka(ctx, options, kafka);
    },
  });
}
