/** The Kafka transport sends each delivery to a topic and waits until all replicas in sync have it. */
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { FieldError } from "../../core/model/problem.ts";
import { isSecretOption } from "../../core/model/secret-option.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { nameProblems } from "./buses/destination.ts";
import { tlsFileProblems, tlsProblems } from "./buses/tls-files.ts";
import type { ToKafkaOptions } from "./kafka/options.ts";

export type { ToKafkaOptions } from "./kafka/options.ts";

const OWN: readonly (keyof ToKafkaOptions)[] = ["name", "brokers", "key", "sasl", "tls"];

const PACKAGES = ["@platformatic/kafka"];

/**
 * Delivers to `kafka:` URLs: `kafka://<name>/deposits` is the topic `deposits`, which must exist. Sent with `acks=all`
 * by an idempotent producer, so that what the client repeats by itself is stored once; an attempt that the relay makes
 * again may be stored again, under the same header `messageId`. Headers are named as they are.
 */
export const toKafka = (options: ToKafkaOptions): Plugin<"transport", Transport> => ({
  kind: "transport",
  name: `kafka:${options?.name}`,
  problems: [...problemsOf(options ?? {}), ...unknownOptions(options ?? {}, OWN)],
  secrets: { "sasl.password": options?.sasl?.password },
  fileProblems: (configDir) => tlsFileProblems(`kafka:${options?.name}`, options?.tls, configDir),
  async setup(context) {
    const client = await loadPackages("toKafka", PACKAGES, () => import("@platformatic/kafka"));
    const { openKafka } = await import("./kafka/transport.ts");
    return openKafka(options, context, client);
  },
});

function problemsOf({ name, brokers, key = "keyId", sasl, tls }: Partial<ToKafkaOptions>): readonly FieldError[] {
  const problems = [...nameProblems(name), ...packageProblems("toKafka", PACKAGES), ...tlsProblems(tls, ["caFile"])];
  const isBroker = (one: unknown): boolean => typeof one === "string" && /^[^\s/@]+:\d{1,5}$/.test(one);
  if (!Array.isArray(brokers) || brokers.length === 0 || !brokers.every(isBroker))
    problems.push({ path: "brokers", message: 'must be a list of host:port, such as ["kafka:9092"]' });
  if (typeof key !== "string" || !/^(?:keyId|data(?:\.[^.]+)*)$/.test(key))
    problems.push({ path: "key", message: "must be keyId, or a path such as data.customer.id" });
  if (sasl !== undefined) {
    if (!["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"].includes(sasl.mechanism))
      problems.push({ path: "sasl.mechanism", message: "must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512" });
    if (typeof sasl.username !== "string" || sasl.username === "")
      problems.push({ path: "sasl.username", message: "must be text, not empty" });
    if (!isSecretOption(sasl.password))
      problems.push({ path: "sasl.password", message: "must be text, or secretFrom(…)" });
  }
  return problems;
}
