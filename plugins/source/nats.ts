/** The source for NATS JetStream, through a durable pull consumer. Acknowledges what is stored alone. */
import { anything, optional, text, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { tlsFileProblems, tlsRule } from "../../core/ports/tls-files.ts";
import { loadNats, NATS_LOGIN, NATS_PACKAGES, natsSecrets, natsServers } from "../brokers/nats.ts";
import { messageSource } from "./messages/plugin.ts";
import type { FromNatsOptions } from "./nats/session.ts";

/** Publishes the messages of a JetStream stream. Needs `@nats-io/transport-node` and `@nats-io/jetstream`. */
export function fromNats(options: FromNatsOptions): Plugin<"source", Source> {
  return messageSource({
    factory: "fromNats",
    kind: "nats",
    options,
    rules: {
      servers: natsServers("nats://host:port, or a list of them, without a password"),
      stream: text("the name of a stream"),
      consumer: text("the name of a durable consumer"),
      maxInFlight: optional(whole(1, 100_000)),
      deadLetterSubject: optional(text("a subject")),
      user: optional(text("a name")),
      ...NATS_LOGIN,
      tls: tlsRule(undefined, anything),
    },
    packages: NATS_PACKAGES,
    secrets: natsSecrets(options),
    fileProblems: (name, configDir) => tlsFileProblems(name, options?.tls, configDir),
    async open(ctx, options) {
      const library = await loadNats("fromNats");
      const { startNats } = await import("./nats/session.ts");
      return startNats(ctx, options, library);
    },
  });
}
