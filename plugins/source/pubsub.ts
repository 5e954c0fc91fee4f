/** The source for Google Cloud Pub/Sub: the messages of a subscription. One is acknowledged when its events are stored. */
import { optional, text, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { loadPubSub, PUBSUB, PUBSUB_PACKAGES } from "../brokers/pubsub.ts";
import { messageSource } from "./messages/plugin.ts";
import type { FromPubSubOptions } from "./pubsub/session.ts";

/** Publishes the messages of a Pub/Sub subscription. Needs the package `@google-cloud/pubsub`. */
export function fromPubSub(options: FromPubSubOptions): Plugin<"source", Source> {
  return messageSource({
    factory: "fromPubSub",
    kind: "pubsub",
    options,
    rules: {
      subscription: text(
        "the name of a subscription, or projects/<project>/subscriptions/<name>",
        /^(?:projects\/[^/\s]+\/subscriptions\/)?[A-Za-z][\w.~+%-]{2,254}$/,
      ),
      maxInFlight: optional(whole(1, 100_000)),
      ...PUBSUB,
    },
    packages: PUBSUB_PACKAGES,
    secrets: { credentials: options?.credentials },
    async open(ctx, options) {
      const library = await loadPubSub("fromPubSub");
      const { startPubSub } = await import("./pubsub/session.ts");
      return startPubSub(ctx, options, library);
    },
  });
}
