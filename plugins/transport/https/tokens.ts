/**
 * Keeps the access tokens of subscriptions with OAuth 2 client credentials (RFC 6749, 4.4): one per subscription, in
 * memory, fetched over the same guarded connections as deliveries, one fetch at a time.
 */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { Oauth2 } from "../../../core/model/credentials.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { readTokenAnswer, type Token } from "./token-answer.ts";

/** Sends one request and reads its answer in full. @throws for a fault of our own */
type Exchanged = (request: TransportRequest) => Promise<Reply>;

/** Most subscriptions whose tokens are kept. */
const KEPT = 10_000;
/** A token is renewed this part of its life before it ends, and no earlier than this many ms. */
const SPARE = 0.1;
const MOST_SPARE_MS = 60_000;
/** How long the next renewal waits after one that failed while the old token still lives. */
const RENEW_AGAIN_MS = 5_000;

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
