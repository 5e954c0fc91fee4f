/** S3, as moto plays it, behind a door that is shut. A policy denies what stands under `forbidden/`. */
import { S3 } from "@aws-sdk/client-s3";
import { toS3 } from "../../../plugins/transport/s3.ts";
import { atLeast, type Arrived, type BusHarness, type FarBus } from "../bus-laws.ts";
import { AWS_LOGIN, needsMoto, startMoto, type Moto } from "../moto.ts";

export interface FarS3 extends FarBus {
  readonly server: Moto;
  readonly client: S3;
  /** The objects under a prefix, with their lines. */
  objects(prefix: string): Promise<readonly { readonly key: string; readonly lines: readonly Line[] }[]>;
}

interface Line {
  readonly messageId: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly bodyBase64?: string;
}

export const s3Bus: BusHarness<FarS3> = {
  system: "S3",
  missing: needsMoto(),
  make: toS3,
  options: (at) => ({ name: "bus", bucket: "archive", endpoint: `http://${at}`, batchMs: 20, ...AWS_LOGIN }),
  everyOption: {
    ...{
      name: "bus",
      bucket: "my-events",
      endpoint: "https://minio:9000",
      region: "eu-central-1",
      forcePathStyle: true,
    },
    ...{ batchMs: 1_000, batchBytes: 1_000_000, accessKeyId: "a", secretAccessKey: "b", tls: { caFile: "ca" } },
  },
  wrongOptions: [
    [{ bucket: "", endpoint: "minio:9000", batchMs: -1, batchBytes: 0 }, "bucket", "batchMs", "batchBytes", "endpoint"],
    [{ bucket: "events", secretAccessKey: "s3cret" }, "secretAccessKey"],
  ],
  urls: {
    rule: "up to 8 parts",
    right: ["", "deposits", "deposits/paid", "deposits/", "day=1/a_b.c"],
    wrong: ["/a", "a//b", "../a", "a/../b", "a b", "a?b", ".a", "x".repeat(101), "1/2/3/4/5/6/7/8/9"],
  },
  place: /^200 bucket archive, object \w+\/dlv_.+-[0-9a-f]{16}\.ndjson$/,
  refused: ["s3://bus/forbidden", /^error the relay may not write under forbidden\/ \(AccessDenied\)$/],
  async start() {
    const server = await startMoto();
    server.deny((method, path) => method === "PUT" && path.startsWith("/archive/forbidden/"));
    const client = new S3({
      ...{ endpoint: server.endpoint, region: AWS_LOGIN.region, forcePathStyle: true, maxAttempts: 10 },
      credentials: { accessKeyId: AWS_LOGIN.accessKeyId, secretAccessKey: AWS_LOGIN.secretAccessKey },
    });
    const where = { CreateBucketConfiguration: { LocationConstraint: AWS_LOGIN.region } };
    await client.createBucket({ Bucket: "archive", ...where });
    async function objects(prefix: string) {
      const { Contents = [] } = await client.listObjectsV2({ Bucket: "archive", Prefix: `${prefix}/` });
      return await Promise.all(
        Contents.map(async ({ Key = "" }) => {
          const { Body } = await client.getObject({ Bucket: "archive", Key });
          const lines = ((await Body?.transformToString()) ?? "").trimEnd().split("\n");
          return { key: Key, lines: lines.map((line) => JSON.parse(line) as Line) };
        }),
      );
    }
    const arrived = async (prefix: string): Promise<readonly Arrived[]> =>
      (await objects(prefix)).flatMap(({ lines }) =>
        lines.map(({ messageId, headers, body, bodyBase64 }) => ({
          ...{ messageId, headers },
          body: body === undefined ? Buffer.from(bodyBase64 ?? "", "base64") : Buffer.from(body),
        })),
      );
    return {
      at: `127.0.0.1:${server.port}`,
      server,
      client,
      objects,
      destination: (name) => Promise.resolve(`s3://bus/${name}`),
      arrived: (url, least) => atLeast(least, () => arrived(url.slice("s3://bus/".length))),
      async [Symbol.asyncDispose]() {
        client.destroy();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};
