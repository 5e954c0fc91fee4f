/** The source for RabbitMQ, AMQP 0-9-1. A message is acknowledged when its events are stored, and not before. */
import { anything, optional, text, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { AMQP_PACKAGES, AMQP_PROTOCOLS, loadAmqp } from "../brokers/amqp.ts";
import type { FromAmqpOptions } from "./amqp/session.ts";
import { messageSource } from "./messages/plugin.ts";

/** Publishes the messages of a RabbitMQ queue. Needs the package `amqplib`. */
export function fromAmqp(options: FromAmqpOptions): Plugin<"source", Source> {
  return messageSource({
    factory: "fromAmqp",
    kind: "amqp",
    options,
    protocols: AMQP_PROTOCOLS,
    rules: {
      queue: text("the name of a queue"),
      prefetch: optional(whole(1, 65_535)),
      deadLetterExchange: optional(text("the name of an exchange")),
      deadLetterRoutingKey: optional(text("a routing key")),
      tls: anything,
    },
    packages: AMQP_PACKAGES,
    async open(ctx, options, url) {
      const { connect } = await loadAmqp("fromAmqp");
      const { startAmqp } = await import("./amqp/session.ts");
      return startAmqp(ctx, options, connect, url);
    },
  });
}
