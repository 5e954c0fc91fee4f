/** The SQS transport sends each delivery to a queue of Amazon's. */
import { optional } from "../../core/ports/options.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { AWS, awsPlugin, SQS_PACKAGES } from "../brokers/aws.ts";
import { KEY } from "./buses/ordering-key.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { ToSqsOptions } from "./sqs/transport.ts";

/**
 * Delivers to `sqs:` URLs: `sqs://<name>/deposits` is the queue `deposits` of the account, which must exist. A FIFO queue
 * (`deposits.fifo`) keeps the order of what has the same `key`, and drops the repeats of an attempt within five minutes.
 */
export function toSqs(options: ToSqsOptions): Plugin<"transport", Transport> {
  const { problems, secrets } = awsPlugin(options);
  return busPlugin({
    scheme: "sqs",
    options,
    rules: { key: optional(KEY), ...AWS },
    problems: [...problems, ...packageProblems("toSqs", SQS_PACKAGES)],
    secrets,
    async open(options, context) {
      const library = await loadPackages("toSqs", SQS_PACKAGES, () => import("@aws-sdk/client-sqs"));
      const { SqsBus } = await import("./sqs/transport.ts");
      return new SqsBus(options, context, library).connect();
    },
  });
}
