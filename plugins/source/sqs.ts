/** The source for Amazon SQS: the messages of a queue. One is deleted when its events are stored, and not before. */
import { optional, text, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { loadPackages } from "../../core/ports/optional-package.ts";
import { AWS, awsPlugin, SQS_PACKAGES } from "../brokers/aws.ts";
import { messageSource } from "./messages/plugin.ts";
import type { FromSqsOptions } from "./sqs/session.ts";

/** Publishes the messages of an SQS queue. Needs the package `@aws-sdk/client-sqs`. */
export function fromSqs(options: FromSqsOptions): Plugin<"source", Source> {
  return messageSource({
    factory: "fromSqs",
    kind: "sqs",
    options,
    rules: {
      queue: text("the name of a queue, or its URL", /^(?:[\w-]{1,80}(?:\.fifo)?|https?:\/\/\S+\/\S+)$/),
      maxInFlight: optional(whole(1, 20_000)),
      ...AWS,
    },
    packages: SQS_PACKAGES,
    ...awsPlugin(options),
    async open(ctx, options) {
      const library = await loadPackages("fromSqs", SQS_PACKAGES, () => import("@aws-sdk/client-sqs"));
      const { startSqs } = await import("./sqs/session.ts");
      return startSqs(ctx, options, library);
    },
  });
}
