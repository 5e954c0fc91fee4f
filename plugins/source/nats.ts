/**
 * The source for NATS JetStream: the messages of a stream, through a durable pull consumer. A message is acknowledged when
 * its events are stored, and not before, so that a crash on either side loses none.
 */
import { anything, optional, secret, text, texts, whole } from "../../core/ports/options.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { tlsFileProblems, tlsRule } from "../../core/ports/tls-files.ts";
import { BACKLOG } from "./messages/backlog.ts";
import { messageSource } from "./messages/plugin.ts";
import type { FromNatsOptions } from "./nats/session.ts";

const PACKAGES = ["@nats-io/transport-node", "@nats-io/jetstream"];
const SERVERS = "nats://host:port, or a list of them, without a password";

/** Publishes the messages of a JetStream stream. Needs `@nats-io/transport-node` and `@nats-io/jetstream`. */
export function fromNats(options: FromNatsOptions): Plugin<"source", Source> {
  return messageSource({
    kind: "nats",
    options,
    rules: {
      servers: texts(SERVERS, /^(?:(?:nats|tls):\/\/)?[^\s/@]+$/, true),
      stream: text("the name of a stream"),
      consumer: text("the name of a durable consumer"),
      maxInFlight: optional(whole(1, 100_000)),
      deadLetterSubject: optional(text("a subject")),
      user: optional(text("a name")),
      password: optional(secret),
      token: optional(secret),
      credentials: optional(secret),
      tls: tlsRule(undefined, anything),
    },
    problems: packageProblems("fromNats", PACKAGES),
    secrets: { password: options?.password, token: options?.token, credentials: options?.credentials },
    metrics: [BACKLOG],
    fileProblems: (name, configDir) => tlsFileProblems(name, options?.tls, configDir),
    async open(options, ctx) {
      const [transport, jetstream] = await loadPackages("fromNats", PACKAGES, () =>
        Promise.all([import("@nats-io/transport-node"), import("@nats-io/jetstream")]),
      );
      const { startNats } = await import("./nats/session.ts");
      return startNats(ctx, options, { ...transport, ...jetstream });
    },
  });
}
