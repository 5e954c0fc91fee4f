/**
 * The source for NATS JetStream: the messages of a stream, through a durable pull consumer. A message is acknowledged when
 * its events are stored, and not before, so that a crash on either side loses none.
 */
import { isSecretOption } from "../../core/model/secret-option.ts";
import type { FieldError } from "../../core/model/problem.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { BACKLOG } from "./messages/backlog.ts";
import { countProblems, messageProblems, textProblems } from "./messages/options.ts";
import { messageSource } from "./messages/plugin.ts";
import type { FromNatsOptions } from "./nats/options.ts";
import { tlsFileProblems, tlsProblems } from "./nats/tls.ts";

const OWN = [
  ...["servers", "stream", "consumer", "maxInFlight", "deadLetterSubject"],
  ...["user", "password", "token", "credentials", "tls"],
];
const PACKAGES = ["@nats-io/transport-node", "@nats-io/jetstream"];

/** Publishes the messages of a JetStream stream. Needs `@nats-io/transport-node` and `@nats-io/jetstream`. */
export function fromNats(options: FromNatsOptions): Plugin<"source", Source> {
  const { password, token, credentials } = (options ?? {}) as Partial<FromNatsOptions>;
  return messageSource({
    kind: "nats",
    options,
    problems: problemsOf(options),
    secrets: { password, token, credentials },
    metrics: [BACKLOG],
    fileProblems: (configDir) => tlsFileProblems(options?.tls, configDir),
    async open(options, ctx) {
      const [transport, jetstream] = await loadPackages("fromNats", PACKAGES, () =>
        Promise.all([import("@nats-io/transport-node"), import("@nats-io/jetstream")]),
      );
      const { startNats } = await import("./nats/session.ts");
      return startNats(ctx, options, { ...transport, ...jetstream });
    },
  });
}

function problemsOf(options: FromNatsOptions | undefined): readonly FieldError[] {
  const given = (options ?? {}) as Partial<FromNatsOptions>;
  const { servers, stream, consumer, maxInFlight, deadLetterSubject, user, password, token, credentials } = given;
  const list = (typeof servers === "string" ? [servers] : (servers ?? [])) as readonly unknown[];
  const secret = (path: string, value: unknown): readonly FieldError[] =>
    value === undefined || isSecretOption(value) ? [] : [{ path, message: "must be text, or secretFrom(…)" }];
  const right = list.length > 0 && list.every((one) => typeof one === "string" && SERVER.test(one));
  return [
    ...messageProblems(options, OWN),
    ...(right ? [] : [{ path: "servers", message: "must be nats://host:port, or a list of them, without a password" }]),
    ...textProblems("stream", stream, "the name of a stream"),
    ...textProblems("consumer", consumer, "the name of a durable consumer"),
    ...countProblems("maxInFlight", maxInFlight, 1, 100_000),
    ...textProblems("deadLetterSubject", deadLetterSubject, "a subject", true),
    ...textProblems("user", user, "a name", true),
    ...secret("password", password),
    ...secret("token", token),
    ...secret("credentials", credentials),
    ...tlsProblems(given.tls),
    ...packageProblems("fromNats", PACKAGES),
  ];
}

const SERVER = /^(?:(?:nats|tls):\/\/)?[^\s/@]+$/;
