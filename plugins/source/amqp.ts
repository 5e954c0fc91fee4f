/**
 * The source for RabbitMQ: the messages of a queue over AMQP 0-9-1. A message is acknowledged when its events are stored,
 * and not before, so that a crash on either side loses none.
 */
import { checkedUrl, anything, optional, secretUrl, text, whole } from "../../core/ports/options.ts";
import { packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { AMQP_PACKAGES, AMQP_PROTOCOLS, loadAmqp } from "../brokers/amqp.ts";
import type { FromAmqpOptions } from "./amqp/session.ts";
import { BACKLOG, messageSource } from "./messages/plugin.ts";

/** Publishes the messages of a RabbitMQ queue. Needs the package `amqplib`. */
export function fromAmqp(options: FromAmqpOptions): Plugin<"source", Source> {
  return messageSource({
    kind: "amqp",
    options,
    rules: {
      url: secretUrl(AMQP_PROTOCOLS),
      queue: text("the name of a queue"),
      prefetch: optional(whole(1, 65_535)),
      deadLetterExchange: optional(text("the name of an exchange")),
      deadLetterRoutingKey: optional(text("a routing key")),
      tls: anything,
    },
    problems: packageProblems("fromAmqp", AMQP_PACKAGES),
    secrets: { url: options?.url },
    metrics: [BACKLOG],
    async open(options, ctx) {
      const { connect } = await loadAmqp("fromAmqp");
      const url = checkedUrl("fromAmqp", ctx.secret("url"), AMQP_PROTOCOLS);
      const { startAmqp } = await import("./amqp/session.ts");
      return startAmqp(ctx, options, connect, url);
    },
  });
}
