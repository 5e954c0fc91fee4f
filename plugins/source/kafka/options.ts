/** The options of `fromKafka()`. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { MessageOptions } from "../messages/message.ts";

export interface FromKafkaOptions extends MessageOptions {
  /** Some brokers of the cluster: `["kafka-1:9092", "kafka-2:9092"]`. */
  readonly brokers: readonly string[];
  readonly topics: readonly string[];
  /** The consumer group. Relays with the same one share the partitions. */
  readonly groupId: string;
  /** Where a partition is read from that the group has no offset of. @default "earliest" */
  readonly from?: "earliest" | "latest";
  /** Most messages that are fetched and whose events are not stored. @default 1_000 */
  readonly maxInFlight?: number;
  /**
   * The topic that a message without a valid event is written to, with the reason in its headers. Without it the relay
   * keeps the newest 1,000 of them in its own storage.
   */
  readonly deadLetterTopic?: string;
  /** `username` and `password` for PLAIN and SCRAM. */
  readonly sasl?: {
    readonly mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
    readonly username: string;
    readonly password: SecretOption;
  };
  /** Passed to `tls.connect`: `ca`, `cert`, `key`, `servername`. `{}` asks for TLS with the system's authorities. */
  readonly tls?: TlsOptions;
}
