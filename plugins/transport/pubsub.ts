/** The Pub/Sub transport publishes each delivery to a topic of Google Cloud Pub/Sub. */
import { optional } from "../../core/ports/options.ts";
import { packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { loadPubSub, PUBSUB, PUBSUB_PACKAGES } from "../brokers/pubsub.ts";
import { KEY } from "./buses/ordering-key.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { ToPubSubOptions } from "./pubsub/transport.ts";

/** Delivers to `pubsub:` URLs: `pubsub://<name>/deposits` is the topic `deposits` of the project, which must exist. */
export const toPubSub = (options: ToPubSubOptions): Plugin<"transport", Transport> =>
  busPlugin({
    scheme: "pubsub",
    options,
    rules: { key: optional(KEY), ...PUBSUB },
    problems: packageProblems("toPubSub", PUBSUB_PACKAGES),
    secrets: { credentials: options?.credentials },
    async open(options, context) {
      const library = await loadPubSub("toPubSub");
      const { PubSubBus } = await import("./pubsub/transport.ts");
      return new PubSubBus(options, context, library).connect();
    },
  });
