/** The transport behind `toS3()`, loaded only where a config names it. */
import { createHash } from "node:crypto";
import type { S3Client } from "@aws-sdk/client-s3";
import { within } from "../../../core/lib/within.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { awsClient, awsFault, isDenied, withCode, type AwsOptions } from "../../brokers/aws.ts";
import { AskedBus } from "../buses/bus.ts";
import { GroupedBy } from "../buses/grouped.ts";
import { lineOf } from "../buses/line.ts";
import { confirmed, refused, refusedBy, unavailable } from "../buses/replies.ts";
import type { Sending } from "../buses/sending.ts";

export interface ToS3Options extends AwsOptions {
  /** Name of the connection in URLs: `s3://<name>/deposits/paid`. */
  readonly name: string;
  /** The bucket. It must exist. */
  readonly bucket: string;
  /** Writes the bucket into the path and not into the host, as MinIO and others want it. @default true with an endpoint */
  readonly forcePathStyle?: boolean;
  /** The first delivery of an object waits so long for others of its prefix, at most half of its time-out. @default 500 */
  readonly batchMs?: number;
  /** An object with so many bytes is stored at once. @default 8_388_608 */
  readonly batchBytes?: number;
}

const PREFIX = /^((?:[A-Za-z0-9_][A-Za-z0-9_.=-]{0,99})(?:\/[A-Za-z0-9_][A-Za-z0-9_.=-]{0,99}){0,7})?\/?$/;
const RULE = "up to 8 parts of letters, digits and . _ = -, such as deposits/paid";
const MOST = 10_000;
/** Asked for to learn whether the bucket is there: nobody stores such an object. */
const PROBE = ".relay-is-this-bucket-there";

type Library = typeof import("@aws-sdk/client-s3");

interface Line {
  readonly prefix: string;
  readonly bytes: Buffer;
  readonly request: TransportRequest;
}

export class S3Bus extends AskedBus {
  readonly #library: Library;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #objects: GroupedBy<Line, string>;

  constructor(options: ToS3Options, context: PluginContext, library: Library) {
    const { name, bucket, endpoint, forcePathStyle = endpoint !== undefined } = options;
    const { batchMs = 500, batchBytes = 8_388_608 } = options;
    super({ scheme: "s3", name, system: "S3", takes: "objects", pattern: PREFIX, rule: RULE }, context);
    this.#library = library;
    this.#bucket = bucket;
    this.#client = new library.S3Client({
      ...awsClient(context, `s3:${name}`, options),
      forcePathStyle,
      maxAttempts: 1,
      // Stores that are not Amazon's know no trailing checksums.
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
    });
    this.#objects = new GroupedBy(
      ({ prefix }) => prefix,
      (prefix) => ({
        mostBytes: batchBytes,
        mostItems: MOST,
        bytesOf: ({ bytes }) => bytes.length,
        linger: ({ request }, full) => within(this.clock, Math.min(batchMs, request.timeoutMs / 2), full),
        work: (lines) => this.#store(prefix, lines),
      }),
    );
  }

  /** Asks for an object that need not exist: "not found" and "denied" prove the credentials, too. */
  protected async ask(abortSignal: AbortSignal): Promise<void> {
    const command = new this.#library.GetObjectCommand({ Bucket: this.#bucket, Key: PROBE });
    await this.#client.send(command, { abortSignal }).catch((error: unknown) => {
      if (awsFault(error).code !== "NoSuchKey" && !isDenied(error)) throw withCode(error);
    });
  }

  protected async publish(
    [prefix = ""]: readonly string[],
    request: TransportRequest,
    sending: Sending,
  ): Promise<Reply> {
    if (!this.up) return unavailable(this.name);
    const line = { prefix, request, bytes: lineOf(request, this.clock.now()) };
    const key = await this.#objects.add(line, () => sending.ended);
    return confirmed(`bucket ${this.#bucket}, object ${key}`);
  }

  /**
   * Stores one object. Its name is that of its first delivery with a hash of all: the same deliveries once more overwrite it, and
   * others never do, since some of them may have been confirmed.
   */
  async #store(prefix: string, lines: readonly Line[]): Promise<readonly string[]> {
    const ids = createHash("sha256");
    for (const { request } of lines) ids.update(`${request.messageId}\n`);
    const name = `${lines[0]?.request.messageId}-${ids.digest("hex").slice(0, 16)}.ndjson`;
    const Key = prefix === "" ? name : `${prefix}/${name}`;
    const Body = Buffer.concat(lines.map(({ bytes }) => bytes));
    const ContentType = "application/x-ndjson";
    await this.#client.send(new this.#library.PutObjectCommand({ Bucket: this.#bucket, Key, Body, ContentType }));
    return lines.map(() => Key);
  }

  protected failed(error: unknown, [prefix = ""]: readonly string[]): Reply {
    const { code, of } = awsFault(error);
    if (of === "service" || code === "NoSuchBucket") return this.notFound(withCode(error));
    if (of === "now") return this.takesNothing(`takes nothing now (${code})`, error);
    if (isDenied(error)) return refused(`the relay may not write under ${prefix}/ (${code})`);
    return refusedBy(String((withCode(error) as Error).message));
  }

  protected override async close(): Promise<void> {
    await super.close();
    this.#client.destroy();
  }
}
