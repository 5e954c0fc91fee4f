/**
 * Keeps the access tokens of subscriptions with OAuth 2 client credentials (RFC 6749, 4.4): one per subscription, in
 * memory, fetched over the same guarded connections as deliveries, one fetch at a time.
 */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import { utf8 } from "../../../core/lib/json.ts";
import type { Oauth2 } from "../../../core/model/credentials.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";

/** An access token, or the reply that the attempt ends with because there is none. */
export type Token = string | Exclude<Reply, { kind: "response" }>;

/** Sends one request and reads its answer in full. @throws for a fault of our own */
type Exchanged = (request: TransportRequest) => Promise<Reply>;

/** Most subscriptions whose tokens are kept. */
const KEPT = 10_000;
/** A token is renewed this part of its life before it ends, and no earlier than this many ms. */
const SPARE = 0.1;
const MOST_SPARE_MS = 60_000;
/** How long the next renewal waits after one that failed while the old token still lives. */
const RENEW_AGAIN_MS = 5_000;

/** Longest token, as HTTP servers have it for all headers. Ordinary ones take up to 4 KiB. */
const LONGEST_TOKEN = 8_192;
/** Life of a token whose answer states none. */
const DEFAULT_S = 300;
/** Longest life that is believed, in seconds. */
const LONGEST_S = 86_400;

/** An access token and how long it lives, ms. */
interface Given {
  readonly token: string;
  readonly lifeMs: number;
}

interface Kept {
  readonly oauth2: Oauth2;
  token: string | undefined;
  /** Monotonic ms from which it is renewed, and from which it is not sent any more. */
  renewAt: number;
  endsAt: number;
  /** The receiver has answered 401 to the token before this one. */
  doubted: boolean;
  fetching: Promise<Token> | undefined;
}

export class Tokens {
  readonly #clock: Clock;
  readonly #exchanged: Exchanged;
  readonly #kept = new Map<string, Kept>();

  constructor(clock: Clock, exchanged: Exchanged) {
    this.#clock = clock;
    this.#exchanged = exchanged;
  }

  /** Returns the token for a request: at once while one lives. The promise rejects only for a fault of our own. */
  take(request: TransportRequest, oauth2: Oauth2): Token | Promise<Token> {
    const { subscriptionId } = request;
    let kept = this.#kept.get(subscriptionId);
    if (kept === undefined || !same(kept.oauth2, oauth2)) {
      kept = { oauth2, token: undefined, renewAt: 0, endsAt: 0, doubted: false, fetching: undefined };
      setNewest(this.#kept, subscriptionId, kept, KEPT);
    }
    const now = this.#clock.monotonic();
    if (kept.token === undefined || now >= kept.endsAt) return this.#fetch(kept, request);
    // The old one still lives: nobody waits for the new one.
    if (now >= kept.renewAt) this.#fetch(kept, request).catch(() => undefined);
    return kept.token;
  }

  /**
   * Learns from the receiver's answer. A 401 drops the token, once: should the next one be refused as well, it stays
   * until it ends, so that a receiver that always answers 401 does not turn every attempt into a fetch.
   */
  answered(subscriptionId: string, token: string, status: number): void {
    const kept = this.#kept.get(subscriptionId);
    if (kept === undefined || kept.token !== token) return;
    if (status !== 401) kept.doubted = false;
    else if (!kept.doubted) {
      kept.token = undefined;
      kept.doubted = true;
    }
  }

  forget(subscriptionId: string): void {
    this.#kept.delete(subscriptionId);
  }

  #fetch(kept: Kept, request: TransportRequest): Promise<Token> {
    kept.fetching ??= this.#ask(kept, request).finally(() => (kept.fetching = undefined));
    return kept.fetching;
  }

  async #ask(kept: Kept, request: TransportRequest): Promise<Token> {
    const began = this.#clock.monotonic();
    const given = readTokenAnswer(await this.#exchanged(tokenRequest(request, kept.oauth2)));
    if (!("token" in given)) {
      kept.renewAt = this.#clock.monotonic() + RENEW_AGAIN_MS;
      return given;
    }
    kept.token = given.token;
    kept.endsAt = began + given.lifeMs;
    kept.renewAt = kept.endsAt - Math.min(MOST_SPARE_MS, given.lifeMs * SPARE);
    return given.token;
  }
}

/** The token is fetched as for a subscription of its own, so that it has its own route beside that to the receiver. */
export const tokenPlace = (subscriptionId: string): string => `${subscriptionId} token`;

function tokenRequest(request: TransportRequest, oauth2: Oauth2): TransportRequest {
  const { tokenUrl, clientId, clientSecret, scope, audience } = oauth2;
  const form = new URLSearchParams({ grant_type: "client_credentials" });
  if (scope !== undefined) form.set("scope", scope);
  if (audience !== undefined) form.set("audience", audience);
  const { "User-Agent": agent } = request.headers;
  const { clientCertificate } = request.credentials ?? {};
  return {
    ...request,
    url: tokenUrl,
    subscriptionId: tokenPlace(request.subscriptionId),
    headers: {
      "Content-Type": "application/x-www-form-urlencoded",
      Accept: "application/json",
      "Accept-Encoding": "identity",
      ...(agent !== undefined && { "User-Agent": agent }),
      // RFC 6749, 2.3.1: both are form-encoded before they are joined.
      Authorization: `Basic ${Buffer.from(`${encoded(clientId)}:${encoded(clientSecret)}`).toString("base64")}`,
    },
    body: Buffer.from(form.toString()),
    credentials: clientCertificate && { clientCertificate },
  };
}

const encoded = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1);

const same = (a: Oauth2, b: Oauth2): boolean =>
  a === b ||
  (["tokenUrl", "clientId", "clientSecret", "scope", "audience"] as const).every((name) => a[name] === b[name]);

/** Reads the answer of a token endpoint (RFC 6749, 5.1 and 5.2). The detail names nothing that was sent. */
function readTokenAnswer(reply: Reply): Given | Exclude<Token, string> {
  switch (reply.kind) {
    case "error":
      return failed(`the token endpoint could not be asked (${reply.error}): ${reply.detail}`);
    // The operator's proxy cannot be reached: that counts against no subscription, whichever request it stopped.
    case "unavailable":
      return reply;
    case "response": {
      const answer = reply.truncated ? undefined : parsed(reply.excerpt);
      if (reply.status !== 200) return failed(`the token endpoint answered ${reply.status}${reason(answer)}`);
      const token = answer?.["access_token"];
      if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token))
        return failed("the answer of the token endpoint holds no access token");
      if (token.length > LONGEST_TOKEN) return failed(`the access token has more than ${LONGEST_TOKEN} characters`);
      const kind = answer?.["token_type"] ?? "bearer";
      if (typeof kind !== "string" || kind.toLowerCase() !== "bearer")
        return failed("the token endpoint gave no bearer token");
      return { token, lifeMs: lifeSeconds(answer?.["expires_in"]) * 1_000 };
    }
  }
}

const failed = (detail: string): Exclude<Token, string> => ({ kind: "error", error: "token", detail });

/** The error code of RFC 6749, 5.2; free text of the server is not repeated. */
function reason(answer: Readonly<Record<string, unknown>> | undefined): string {
  const code = answer?.["error"];
  return typeof code === "string" && /^[a-z_]{1,40}$/.test(code) ? ` (${code})` : "";
}

function lifeSeconds(given: unknown): number {
  const seconds = Number(given ?? DEFAULT_S);
  return Number.isFinite(seconds) ? Math.min(Math.max(0, seconds), LONGEST_S) : DEFAULT_S;
}

function parsed(bytes: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(utf8.decode(bytes));
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}
