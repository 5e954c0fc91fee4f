/** Makes the clients of Amazon's services, for SQS and S3, and says what their failures mean. */
import type { SecretOption } from "../../core/model/secret-option.ts";
import { optional, secret, secretUrl, text, type Rules } from "../../core/ports/options.ts";
import type { PluginContext } from "../../core/ports/plugin.ts";
import { readTls, tlsFileProblems, tlsRule, type TlsFiles } from "../../core/ports/tls-files.ts";

export const SQS_PACKAGES = ["@aws-sdk/client-sqs"];
export const S3_PACKAGES = ["@aws-sdk/client-s3"];

export interface AwsOptions {
  /** `eu-central-1`. Left out: the variable `AWS_REGION`, or the shared config file; `us-east-1` with an `endpoint`. */
  readonly region?: string;
  /** Where a service stands that is not Amazon's: `https://minio.example.com:9000`. */
  readonly endpoint?: string;
  /**
   * With `secretAccessKey`, who the relay is. Left out: the chain of Amazon's SDK, which asks the environment, the shared
   * files, and the role of the task, pod or machine.
   */
  readonly accessKeyId?: string;
  readonly secretAccessKey?: SecretOption;
  /** `caFile` is the path of a PEM file with authorities, in place of the system's. */
  readonly tls?: { readonly caFile?: string };
}

const CONNECT_MS = 5_000;
/** An answer takes no longer than this, ms: more than the longest wait for messages. */
const ANSWER_MS = 30_000;

const together = (options: Partial<AwsOptions> | undefined) =>
  (options?.accessKeyId === undefined) === (options?.secretAccessKey === undefined)
    ? []
    : [{ path: "secretAccessKey", message: "goes with accessKeyId: give both, or neither" }];

export const AWS = {
  region: optional(text("the name of a region, such as eu-central-1", /^[a-z0-9-]{1,40}$/)),
  endpoint: optional(secretUrl(["https:", "http:"], true)),
  accessKeyId: optional(text("text, not empty")),
  secretAccessKey: optional(secret),
  tls: tlsRule(["caFile"]),
} satisfies Rules<AwsOptions>;

/** Parts of a plug-in that are the same for all of Amazon's services. */
export const awsPlugin = (options: Partial<AwsOptions> | undefined) => ({
  problems: together(options),
  secrets: { secretAccessKey: options?.secretAccessKey },
  fileProblems: (name: string, configDir: string) => tlsFileProblems(name, options?.tls as TlsFiles, configDir),
});

/** @param plugin its name, for people. @throws StartError 78 when a file cannot be read */
export function awsClient({ secret: read, configDir }: PluginContext, plugin: string, options: AwsOptions) {
  const { endpoint, region = endpoint === undefined ? undefined : "us-east-1", accessKeyId, tls } = options;
  const ca = readTls(plugin, tls, configDir);
  return {
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    ...(accessKeyId !== undefined && { credentials: { accessKeyId, secretAccessKey: read("secretAccessKey") } }),
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      requestTimeout: ANSWER_MS,
      throwOnRequestTimeout: true,
      httpsAgent: { keepAlive: true, maxSockets: 64, ...ca },
      httpAgent: { keepAlive: true, maxSockets: 64 },
    },
  };
}

const NOT_LET_IN =
  /^(?:InvalidClientTokenId|UnrecognizedClient|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidSignature|IncompleteSignature|MissingAuthenticationToken|ExpiredToken|InvalidToken|RequestTimeTooSkewed|RequestExpired)/;
const BUSY = /Throttl|SlowDown|RequestLimitExceeded|OverLimit|KmsThrottled/;

interface AwsFault {
  readonly name?: string;
  readonly message?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** Names a failure and says what it concerns: the whole service, the service for now, or what was named or sent. */
export function awsFault(error: unknown): { readonly code: string; readonly of: "service" | "now" | "request" } {
  const { name = "", $metadata } = error as AwsFault;
  const code = name.replace(/Exception$/, "");
  const status = $metadata?.httpStatusCode;
  if (status === undefined || NOT_LET_IN.test(code)) return { code, of: "service" };
  return { code, of: status >= 500 || status === 429 || BUSY.test(code) ? "now" : "request" };
}

/** True for one who is known and may not do that. */
export const isDenied = (error: unknown): boolean => awsFault(error).code.startsWith("AccessDenied");

/** Puts the code before the words: `InvalidClientTokenId: The security token included in the request is invalid`. */
export function withCode(error: unknown): unknown {
  const { message = "", $metadata } = error as AwsFault;
  const { code } = awsFault(error);
  if ($metadata?.httpStatusCode === undefined || message.startsWith(code)) return error;
  return new Error(message === "" || message === "UnknownError" ? code : `${code}: ${message}`);
}
