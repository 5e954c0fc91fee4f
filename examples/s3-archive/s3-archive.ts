/** Archives each delivery as an object of an S3-compatible store: `s3://<name>/<prefix>` names a connection of the config. */
import { createHash, createHmac } from "node:crypto";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { ConnectError, isSecretOption } from "relaybox";
import type { Plugin, PluginContext, Reply, SecretOption, Transport, TransportRequest } from "relaybox";

export interface S3ArchiveOptions {
  /** Name of the connection: the host of its URLs. */
  readonly name: string;
  /** Where the store is: `https://s3.eu-central-1.amazonaws.com`. The guard must allow it. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: SecretOption;
}

export function s3Archive(options: S3ArchiveOptions): Plugin<"transport", Transport> {
  const problems = problemsOf(options);
  return {
    kind: "transport",
    name: `s3-${options.name}`,
    problems,
    secrets: { secretAccessKey: problems.length === 0 ? options.secretAccessKey : undefined },
    metrics: [{ name: "relay_transport_archived_bytes_total", type: "counter", help: "Bytes archived to S3" }],
    setup: (ctx) => ({
      schemes: ["s3"],
      name: options.name,
      // The bytes are only read.
      keepsBody: true,
      problems: (url) =>
        PREFIX.test(new URL(url).pathname)
          ? undefined
          : "must be s3://, a name, and a prefix of letters, digits, - _ . /",
      send: (request, signal) => put(request, signal, options, ctx),
      dispose: () => Promise.resolve(),
    }),
  };
}

const PREFIX = /^(?:\/[A-Za-z0-9_.-]+)*\/?$/;
const EXCERPT = 4_096;

function problemsOf({ endpoint, secretAccessKey, ...texts }: S3ArchiveOptions): { path: string; message: string }[] {
  const found = Object.entries(texts)
    .filter(([, value]) => typeof value !== "string" || value === "")
    .map(([path]) => ({ path, message: "must be text, not empty" }));
  if (!URL.canParse(endpoint) || new URL(endpoint).protocol !== "https:")
    found.push({ path: "endpoint", message: "must be an https:// URL" });
  if (!isSecretOption(secretAccessKey))
    found.push({ path: "secretAccessKey", message: "must be text, or secretFrom(…)" });
  return found;
}

/** Writes one object. The same delivery has the same key at each attempt, so a repeat replaces and never adds. */
async function put(
  { url, headers, body, messageId, timeoutMs }: TransportRequest,
  signal: AbortSignal,
  options: S3ArchiveOptions,
  { clock, connect, metrics, secret }: PluginContext,
): Promise<Reply> {
  signal.throwIfAborted();
  const { hostname, host, port } = new URL(options.endpoint);
  const prefix = new URL(url).pathname.replace(/^\/|\/$/g, "");
  const path = `/${options.bucket}/${prefix === "" ? "" : `${prefix}/`}${messageId}.json`;
  // The signature of the delivery is kept as metadata, so that the archive can be verified as a receiver would.
  const kept = Object.entries(headers).filter(([name]) => name.startsWith("webhook-"));
  const signed = signV4(
    {
      method: "PUT",
      path,
      body,
      headers: {
        host,
        "content-type": "application/json",
        ...Object.fromEntries(kept.map(([name, value]) => [`x-amz-meta-${name}`, value])),
      },
    },
    { ...options, secretAccessKey: secret("secretAccessKey"), at: clock.now() },
  );
  const late = new AbortController();
  const over = new AbortController();
  clock.sleep(clock.now() + timeoutMs, over.signal).then(
    () => late.abort(new Error(`no answer within ${timeoutMs} ms`)),
    () => undefined,
  );
  const both = AbortSignal.any([signal, late.signal]);
  try {
    const socket = await connect({ hostname, port: Number(port || 443) }, both);
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      httpRequest({ method: "PUT", path, headers: signed, createConnection: () => socket, signal: both })
        .on("response", resolve)
        .on("error", reject)
        .end(body);
    });
    const reply = await read(answer);
    if (reply.kind === "response" && reply.status === 200)
      metrics.count("relay_transport_archived_bytes_total", {}, body.length);
    return reply;
  } catch (error) {
    signal.throwIfAborted();
    const detail = String(error);
    if (late.signal.aborted) return { kind: "error", error: "timeout", detail };
    // The store is the operator's: while it is away, subscriptions wait and use up no attempts.
    if (error instanceof ConnectError) return { kind: "unavailable", detail: error.message };
    const isProtocol = String((error as NodeJS.ErrnoException).code).startsWith("HPE_");
    return { kind: "error", error: isProtocol ? "protocol" : "reset", detail };
  } finally {
    over.abort();
  }
}

async function read(answer: IncomingMessage): Promise<Reply> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of answer) {
    parts.push(part as Buffer);
    length += (part as Buffer).length;
    // Leaving the loop ends the connection.
    if (length > EXCERPT) break;
  }
  const retryAfter = answer.headers["retry-after"];
  return {
    kind: "response",
    status: answer.statusCode ?? 0,
    excerpt: Buffer.concat(parts).subarray(0, EXCERPT),
    truncated: length > EXCERPT,
    ...(retryAfter !== undefined && { retryAfter }),
  };
}

const sha256 = (data: Uint8Array | string): string => createHash("sha256").update(data).digest("hex");
const hmac = (key: Buffer | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();

/**
 * The headers of a request with its signature: AWS Signature Version 4, in the header.
 * @param request `path` is encoded already; the names of `headers` are lower case
 */
export function signV4(
  request: {
    readonly method: string;
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Uint8Array;
  },
  by: { readonly accessKeyId: string; readonly secretAccessKey: string; readonly region: string; readonly at: number },
): Record<string, string> {
  const time = new Date(by.at).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const day = time.slice(0, 8);
  const digest = sha256(request.body);
  const headers: Record<string, string> = { ...request.headers, "x-amz-content-sha256": digest, "x-amz-date": time };
  const names = Object.keys(headers).sort();
  const canonical = [
    request.method,
    request.path,
    "",
    ...names.map((name) => `${name}:${headers[name]?.trim().replaceAll(/ +/g, " ")}`),
    "",
    names.join(";"),
    digest,
  ].join("\n");
  const scope = `${day}/${by.region}/s3/aws4_request`;
  const key = ["aws4_request", "s3", by.region, day].reduceRight(hmac, Buffer.from(`AWS4${by.secretAccessKey}`));
  const signature = hmac(key, ["AWS4-HMAC-SHA256", time, scope, sha256(canonical)].join("\n")).toString("hex");
  const credential = `Credential=${by.accessKeyId}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`;
  return { ...headers, authorization: `AWS4-HMAC-SHA256 ${credential}`, "content-length": String(request.body.length) };
}
