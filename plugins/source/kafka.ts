/**
 * The source for Kafka: topics, as a member of a consumer group. The offset of a message is committed when its events and
 * those before it in its partition are stored, and not before, so that a crash on either side loses none.
 */
import { anything, choice, inside, optional, secret, text, texts, whole } from "../../core/ports/options.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import type { FromKafkaOptions } from "./kafka/session.ts";
import { BACKLOG } from "./messages/backlog.ts";
import { messageSource } from "./messages/plugin.ts";

const PACKAGES = ["@platformatic/kafka"];

/** Publishes the messages of Kafka topics. Needs the package `@platformatic/kafka`. */
export function fromKafka(options: FromKafkaOptions): Plugin<"source", Source> {
  return messageSource({
    kind: "kafka",
    options,
    rules: {
      brokers: texts("a list of host:port", /^[^\s/:]+:\d{1,5}$/),
      topics: texts("a list of topics", /^[\w.-]{1,249}$/),
      groupId: text("the name of a consumer group"),
      from: optional(choice("earliest", "latest")),
      maxInFlight: optional(whole(1, 100_000)),
      deadLetterTopic: optional(text("a topic")),
      sasl: optional(
        inside({
          mechanism: choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
          username: text("a name"),
          password: secret,
        }),
      ),
      tls: anything,
    },
    problems: packageProblems("fromKafka", PACKAGES),
    secrets: { "sasl.password": options?.sasl?.password },
    metrics: [BACKLOG],
    async open(options, ctx) {
      // kafkajs has had no release since 2023; this client is kept, and brings no native code.
      const kafka = await loadPackages("fromKafka", PACKAGES, () => import("@platformatic/kafka"));
      const { startKafka } = await import("./kafka/session.ts");
      return startKafka(ctx, options, kafka);
    },
  });
}
