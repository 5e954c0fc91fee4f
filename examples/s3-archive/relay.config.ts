// Archives what subscriptions to s3://archive/… get, in a bucket of an S3-compatible store.
import { defineRelay, https, secretFrom } from "relaybox";
import { s3Archive } from "./s3-archive.ts";

export default defineRelay({
  transports: [
    https(),
    s3Archive({
      name: "archive",
      endpoint: "https://s3.eu-central-1.amazonaws.com",
      bucket: "my-events",
      region: "eu-central-1",
      accessKeyId: "AKIAIOSFODNN7EXAMPLE",
      // S3_SECRET_ACCESS_KEY, or the file that S3_SECRET_ACCESS_KEY_FILE names.
      secretAccessKey: secretFrom({ env: "S3_SECRET_ACCESS_KEY" }),
    }),
  ],
});
