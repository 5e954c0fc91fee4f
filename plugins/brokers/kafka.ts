/** Connects to Kafka, for the source and the transport. */
import { loadPackages } from "../../core/ports/optional-package.ts";
import { choice, inside, optional, secret, text } from "../../core/ports/options.ts";
import type { PluginContext } from "../../core/ports/plugin.ts";

/** `sasl` of the options: its password is a secret. */
interface Login {
  readonly mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
  readonly username: string;
}

export const KAFKA_PACKAGES = ["@platformatic/kafka"];

export const KAFKA_LOGIN = optional(
  inside({
    mechanism: choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    username: text("text, not empty"),
    password: secret,
  }),
);

/** Loads the client that is kept and brings no native code: kafkajs has had no release since 2023. */
export const loadKafka = (factory: string) =>
  loadPackages(factory, KAFKA_PACKAGES, () => import("@platformatic/kafka"));

/** @param tls as `tls.connect` takes it */
export const kafkaOptions = (
  { secret: read }: PluginContext,
  { brokers, sasl }: { readonly brokers: readonly string[]; readonly sasl?: Login },
  tls: object | undefined,
) => ({
  bootstrapBrokers: [...brokers],
  ...(tls && { tls }),
  ...(sasl && { sasl: { ...sasl, password: read("sasl.password") } }),
});
