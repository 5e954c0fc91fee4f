/**
 * The source for RabbitMQ: the messages of a queue over AMQP 0-9-1. A message is acknowledged when its events are stored,
 * and not before, so that a crash on either side loses none.
 */
import type { FieldError } from "../../core/model/problem.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { PROTOCOLS, type FromAmqpOptions } from "./amqp/options.ts";
import { BACKLOG } from "./messages/backlog.ts";
import { countProblems, messageProblems, textProblems, urlProblems } from "./messages/options.ts";
import { messageSource } from "./messages/plugin.ts";

const PACKAGES = ["amqplib"];
const OWN = ["url", "queue", "prefetch", "deadLetterExchange", "deadLetterRoutingKey", "tls"];

/** Publishes the messages of a RabbitMQ queue. Needs the package `amqplib`. */
export function fromAmqp(options: FromAmqpOptions): Plugin<"source", Source> {
  return messageSource({
    kind: "amqp",
    options,
    problems: problemsOf(options),
    secrets: { url: (options as FromAmqpOptions | undefined)?.url },
    metrics: [BACKLOG],
    async open(options, ctx) {
      // This client, which toAmqp() uses too, gives the bytes of a message. Others parse JSON, which changes the
      // spelling of numbers; a signed body must be what was published.
      const { connect } = await loadPackages("fromAmqp", PACKAGES, () => import("amqplib"));
      const { startAmqp } = await import("./amqp/session.ts");
      return startAmqp(ctx, options, connect);
    },
  });
}

function problemsOf(options: FromAmqpOptions | undefined): readonly FieldError[] {
  const { url, queue, prefetch, deadLetterExchange, deadLetterRoutingKey } = (options ??
    {}) as Partial<FromAmqpOptions>;
  return [
    ...messageProblems(options, OWN),
    ...urlProblems("url", url, PROTOCOLS),
    ...textProblems("queue", queue, "the name of a queue"),
    ...countProblems("prefetch", prefetch, 1, 65_535),
    ...textProblems("deadLetterExchange", deadLetterExchange, "the name of an exchange", true),
    ...textProblems("deadLetterRoutingKey", deadLetterRoutingKey, "a routing key", true),
    ...packageProblems("fromAmqp", PACKAGES),
  ];
}
