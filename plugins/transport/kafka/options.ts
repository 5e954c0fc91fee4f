/** The options of `toKafka()`. */
import type { SecretOption } from "../../../core/model/secret-option.ts";

export interface ToKafkaOptions {
  /** Name of the connection in URLs: `kafka://<name>/deposits`. */
  readonly name: string;
  /** `host:9092` of some brokers. */
  readonly brokers: readonly string[];
  /**
   * What chooses the partition: `keyId`, or a path of the event such as `data.customer.id`. An event without such a
   * value is keyed by its `keyId`. @default "keyId"
   */
  readonly key?: string;
  readonly sasl?: {
    readonly mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
    readonly username: string;
    readonly password: SecretOption;
  };
  /** TLS; `caFile` is the path of a PEM file, in place of the system's authorities. */
  readonly tls?: { readonly caFile?: string };
}
