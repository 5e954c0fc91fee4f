/** The Kafka transport sends each delivery to a topic and waits until all replicas in sync have it. */
import { optional, texts } from "../../core/ports/options.ts";
import { packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { tlsRule } from "../../core/ports/tls-files.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { KAFKA_LOGIN, KAFKA_PACKAGES, loadKafka } from "../brokers/kafka.ts";
import { KEY } from "./buses/ordering-key.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { ToKafkaOptions } from "./kafka/transport.ts";

/**
 * Delivers to `kafka:` URLs: `kafka://<name>/deposits` is the topic `deposits`, which must exist. Sent with `acks=all`
 * by an idempotent producer, so that what the client repeats by itself is stored once; an attempt that the relay makes
 * again may be stored again, under the same header `messageId`. Headers are named as they are.
 */
export const toKafka = (options: ToKafkaOptions): Plugin<"transport", Transport> =>
  busPlugin({
    scheme: "kafka",
    options,
    rules: {
      brokers: texts('a list of host:port, such as ["kafka:9092"]', /^[^\s/@]+:\d{1,5}$/),
      key: optional(KEY),
      sasl: KAFKA_LOGIN,
      tls: tlsRule(["caFile"]),
    },
    problems: packageProblems("toKafka", KAFKA_PACKAGES),
    secrets: { "sasl.password": options?.sasl?.password },
    async open(options, context) {
      const client = await loadKafka("toKafka");
      const { KafkaBus } = await import("./kafka/transport.ts");
      return new KafkaBus(options, context, client).connect();
    },
  });
