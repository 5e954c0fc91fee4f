/**
 * The source for RabbitMQ: the messages of a queue over AMQP 0-9-1. A message is acknowledged when its events are stored,
 * and not before, so that a crash on either side loses none.
 */
import { checkedUrl, anything, optional, secretUrl, text, whole } from "../../core/ports/options.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import type { FromAmqpOptions } from "./amqp/session.ts";
import { BACKLOG } from "./messages/backlog.ts";
import { messageSource } from "./messages/plugin.ts";

const PACKAGES = ["amqplib"];
const PROTOCOLS = ["amqp:", "amqps:"];

/** Publishes the messages of a RabbitMQ queue. Needs the package `amqplib`. */
export function fromAmqp(options: FromAmqpOptions): Plugin<"source", Source> {
  return messageSource({
    kind: "amqp",
    options,
    rules: {
      url: secretUrl(PROTOCOLS),
      queue: text("the name of a queue"),
      prefetch: optional(whole(1, 65_535)),
      deadLetterExchange: optional(text("the name of an exchange")),
      deadLetterRoutingKey: optional(text("a routing key")),
      tls: anything,
    },
    problems: packageProblems("fromAmqp", PACKAGES),
    secrets: { url: options?.url },
    metrics: [BACKLOG],
    async open(options, ctx) {
      // This client, which toAmqp() uses too, gives the bytes of a message. Others parse JSON, which changes the
      // spelling of numbers; a signed body must be what was published.
      const { connect } = await loadPackages("fromAmqp", PACKAGES, () => import("amqplib"));
      const url = checkedUrl("fromAmqp", ctx.secret("url"), PROTOCOLS);
      const { startAmqp } = await import("./amqp/session.ts");
      return startAmqp(ctx, options, connect, url);
    },
  });
}
