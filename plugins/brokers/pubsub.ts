/** Makes the client of Google Cloud Pub/Sub, and says what its failures mean. */
import type { ClientConfig, PubSub } from "@google-cloud/pubsub";
import { StartError } from "../../core/model/errors.ts";
import type { SecretOption } from "../../core/model/secret-option.ts";
import { optional, secret, text, type Rules } from "../../core/ports/options.ts";
import { loadPackages } from "../../core/ports/optional-package.ts";
import type { PluginContext } from "../../core/ports/plugin.ts";

export const PUBSUB_PACKAGES = ["@google-cloud/pubsub"];

export type PubSubLibrary = typeof import("@google-cloud/pubsub");

export interface PubSubOptions {
  /** `my-project`. Left out: that of the credentials, or the variable `GOOGLE_CLOUD_PROJECT`. */
  readonly projectId?: string;
  /**
   * The JSON key of a service account: `secretFrom({ file: "key.json" })`. Left out: Google's own chain, which asks
   * `GOOGLE_APPLICATION_CREDENTIALS`, the login of gcloud, and the service account of the machine or pod.
   */
  readonly credentials?: SecretOption;
  /**
   * `europe-west1-pubsub.googleapis.com:443` keeps messages in a region. A host that is not Google's is an emulator, which is
   * spoken to in clear and without credentials.
   */
  readonly apiEndpoint?: string;
}

export const PUBSUB = {
  projectId: optional(text("the id of a project", /^[a-z][a-z0-9.:-]{3,61}[a-z0-9]$/)),
  credentials: optional(secret),
  apiEndpoint: optional(text("host:port, such as 127.0.0.1:8085", /^[A-Za-z0-9.-]+:\d{1,5}$/)),
} satisfies Rules<PubSubOptions>;

/** Codes of gRPC that a call may end with. */
export const GRPC = { ok: 0, invalid: 3, late: 4, missing: 5, denied: 7, exhausted: 8, precondition: 9, away: 14 };
const BUSY = new Set([GRPC.exhausted, 10, 13]);
/** An answer takes no longer than this, ms. */
const ANSWER_MS = 5_000;
/** Longest wait of the client between attempts to connect, ms. */
const CHANNEL = { "grpc.max_reconnect_backoff_ms": 2_000 };

export const loadPubSub = (factory: string): Promise<PubSubLibrary> =>
  loadPackages(factory, PUBSUB_PACKAGES, () => import("@google-cloud/pubsub"));

/** @param plugin its name, for people. @throws StartError 78 for credentials that are no JSON */
export function pubSubClient(ctx: PluginContext, plugin: string, options: PubSubOptions, library: PubSubLibrary) {
  const { projectId, apiEndpoint } = options;
  return new library.PubSub({
    ...(projectId !== undefined && { projectId }),
    ...(apiEndpoint !== undefined && { apiEndpoint }),
    ...(options.credentials !== undefined && { credentials: keyOf(ctx, plugin) }),
    ...CHANNEL,
  });
}

function keyOf({ secret: read }: PluginContext, plugin: string): NonNullable<ClientConfig["credentials"]> {
  try {
    return JSON.parse(read("credentials")) as NonNullable<ClientConfig["credentials"]>;
  } catch {
    throw new StartError(78, `${plugin}: credentials must be the JSON key of a service account`);
  }
}

/** Options of a call that is made once: the relay tries again by itself. */
export const ONCE = { timeout: ANSWER_MS, retry: { retryCodes: [] } };

type Kind = "PublisherClient" | "SubscriberClient";

/**
 * Makes one call, once. It is the first that a client makes: one that finds no credentials would end the process later, with a
 * rejection that nobody handles.
 * @throws what the service says
 */
export async function callPubSub(client: PubSub, kind: Kind, method: string, reqOpts: object): Promise<unknown> {
  const of = (await client.getClientAsync_({ client: kind })) as unknown as { initialize(): Promise<unknown> };
  await of.initialize();
  return new Promise((done, failed) => {
    client.request<object>({ client: kind, method, reqOpts, gaxOpts: ONCE }, (error, answer) =>
      error ? failed(error) : done(answer),
    );
  });
}

interface GrpcFault {
  readonly code?: unknown;
  readonly message?: string;
}

/** Returns the code of gRPC; `undefined` for what failed before a call. */
export function grpcCode(error: unknown): number | undefined {
  const { code } = error as GrpcFault;
  return typeof code === "number" ? code : undefined;
}

/** Says what a failure concerns: the whole service, the service for now, or what was named or sent. */
export function pubSubFault(error: unknown): "service" | "now" | "request" {
  const code = grpcCode(error);
  if (code === undefined || code === GRPC.away || code === GRPC.late || code === 16) return "service";
  return BUSY.has(code) ? "now" : "request";
}

/** Takes the number of the code out, `NOT_FOUND: topic …`, and names what the network said where it is all that there is. */
export function withWords(error: unknown): Error {
  const { message = String(error) } = error as GrpcFault;
  const [, code, address, port] = /\bconnect (E[A-Z]+) (\S+):(\d+)/.exec(message) ?? [];
  if (code !== undefined) return Object.assign(new Error(message), { code, address, port: Number(port) });
  if (grpcCode(error) === GRPC.late) return Object.assign(new Error(message), { code: "ETIMEDOUT" });
  return new Error(message.replace(/^\d+ /, ""));
}
