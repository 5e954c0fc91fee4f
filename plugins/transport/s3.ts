/** The S3 transport archives deliveries in a bucket: those that come together become one object. */
import { flag, optional, text, whole } from "../../core/ports/options.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { AWS, awsPlugin, S3_PACKAGES } from "../brokers/aws.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { ToS3Options } from "./s3/transport.ts";

/**
 * Delivers to `s3:` URLs: `s3://<name>/deposits/paid` is a prefix in the bucket. The lines of an object are deliveries, as in
 * the files of `toFile()`. A delivery counts when its object is stored.
 */
export function toS3(options: ToS3Options): Plugin<"transport", Transport> {
  const { problems, secrets } = awsPlugin(options);
  return busPlugin({
    scheme: "s3",
    options,
    rules: {
      bucket: text("the name of a bucket", /^[A-Za-z0-9][\w.-]{1,62}$/),
      forcePathStyle: optional(flag),
      batchMs: optional(whole(0, 60_000)),
      batchBytes: optional(whole(1, 1_073_741_824)),
      ...AWS,
    },
    problems: [...problems, ...packageProblems("toS3", S3_PACKAGES)],
    secrets,
    async open(options, context) {
      const library = await loadPackages("toS3", S3_PACKAGES, () => import("@aws-sdk/client-s3"));
      const { S3Bus } = await import("./s3/transport.ts");
      return new S3Bus(options, context, library).connect();
    },
  });
}
