/**
 * The source for Kafka: topics, as a member of a consumer group. The offset of a message is committed when its events and
 * those before it in its partition are stored, and not before, so that a crash on either side loses none.
 */
import { isSecretOption } from "../../core/model/secret-option.ts";
import type { FieldError } from "../../core/model/problem.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import type { FromKafkaOptions } from "./kafka/options.ts";
import { BACKLOG } from "./messages/backlog.ts";
import { countProblems, messageProblems, textProblems } from "./messages/options.ts";
import { messageSource } from "./messages/plugin.ts";

const PACKAGES = ["@platformatic/kafka"];
const OWN = ["brokers", "topics", "groupId", "from", "maxInFlight", "deadLetterTopic", "sasl", "tls"];
const BROKER = /^[^\s/:]+:\d{1,5}$/;
const MECHANISMS: readonly unknown[] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/** Publishes the messages of Kafka topics. Needs the package `@platformatic/kafka`. */
export function fromKafka(options: FromKafkaOptions): Plugin<"source", Source> {
  return messageSource({
    kind: "kafka",
    options,
    problems: problemsOf(options),
    secrets: { "sasl.password": (options as FromKafkaOptions | undefined)?.sasl?.password },
    metrics: [BACKLOG],
    async open(options, ctx) {
      // kafkajs has had no release since 2023; this client is kept, and brings no native code.
      const kafka = await loadPackages("fromKafka", PACKAGES, () => import("@platformatic/kafka"));
      const { startKafka } = await import("./kafka/session.ts");
      return startKafka(ctx, options, kafka);
    },
  });
}

function problemsOf(options: FromKafkaOptions | undefined): readonly FieldError[] {
  const { brokers, topics, groupId, from, maxInFlight, deadLetterTopic, sasl } = (options ??
    {}) as Partial<FromKafkaOptions>;
  const wrong = (path: string, right: boolean, message: string): readonly FieldError[] =>
    right ? [] : [{ path, message }];
  const list = (value: unknown, rule: RegExp): boolean =>
    Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string" && rule.test(one));
  return [
    ...messageProblems(options, OWN),
    ...wrong("brokers", list(brokers, BROKER), "must be a list of host:port"),
    ...wrong("topics", list(topics, /^[\w.-]{1,249}$/), "must be a list of topics"),
    ...textProblems("groupId", groupId, "the name of a consumer group"),
    ...wrong("from", [undefined, "earliest", "latest"].includes(from), 'must be "earliest" or "latest"'),
    ...countProblems("maxInFlight", maxInFlight, 1, 100_000),
    ...textProblems("deadLetterTopic", deadLetterTopic, "a topic", true),
    ...(sasl === undefined
      ? []
      : [
          ...wrong("sasl.mechanism", MECHANISMS.includes(sasl.mechanism), `must be one of ${MECHANISMS.join(", ")}`),
          ...textProblems("sasl.username", sasl.username, "a name"),
          ...wrong("sasl.password", isSecretOption(sasl.password), "must be text, or secretFrom(…)"),
        ]),
    ...packageProblems("fromKafka", PACKAGES),
  ];
}
