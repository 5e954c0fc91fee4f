/** A subscription: a URL, event names, a status and a secret, owned by one API key. */
import type { StoredClientCertificate, StoredOauth2 } from "./credentials.ts";
import { matchesPattern } from "./names.ts";

export type SubscriptionStatus = "active" | "disabled";
/** Why the relay disabled it: the endpoint answered 410, or it only failed for days. Absent when a person did. */
export type DisabledReason = "endpoint_gone" | "endpoint_failing";

export interface RetryOptions {
  /** Attempts in all, the first one included. */
  readonly attempts: number;
  /** The wait after the first attempt. */
  readonly firstDelayMs: number;
  /** Each further wait is this many times the one before. */
  readonly factor: number;
  /** The longest wait. A subscription may set up to a day. */
  readonly maxDelayMs: number;
}

/** A signing secret at rest. */
export interface SealedSecret {
  /** Grows with every secret this subscription ever had; part of the sealing's AAD. */
  readonly version: number;
  readonly sealed: string;
  readonly createdAt: number;
  /** Epoch ms; set on the previous secret of a rotation while both are valid. */
  readonly expiresAt?: number;
}

export interface Subscription {
  readonly id: string;
  readonly keyId: string;
  readonly url: string;
  /** Event names and patterns, each once. */
  readonly events: readonly string[];
  readonly status: SubscriptionStatus;
  readonly disabledReason?: DisabledReason;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Epoch ms of the deletion; set on a tombstone. */
  readonly deletedAt?: number;
  /**
   * Set on a tombstone until no attempt of it is under way on any node. A repeated DELETE continues one that was
   * interrupted.
   */
  readonly ending?: true;
  /**
   * Grows whenever the subscription stops being active. A pending delivery whose cycle began in an older generation is
   * no longer pending: it reads as ended and is never sent.
   */
  readonly generation: number;
  /** Newest first, at most two. */
  readonly secrets: readonly SealedSecret[];
  readonly description?: string;
  readonly rateLimit?: { readonly perSecond: number };
  readonly timeoutMs?: number;
  readonly retry?: RetryOptions;
  /** Static request headers: name → sealed value. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly clientCertificate?: StoredClientCertificate;
  readonly oauth2?: StoredOauth2;
}

export const isLive = (sub: Subscription | undefined): sub is Subscription =>
  sub !== undefined && sub.deletedAt === undefined;

export const wants = (sub: Subscription, type: string): boolean =>
  sub.events.some((pattern) => matchesPattern(pattern, type));

/** AAD that ties a sealed secret to its place (key, subscription, version). */
export const secretAad = (keyId: string, subscriptionId: string, version: number): string =>
  `secret:${keyId}:${subscriptionId}:${version}`;

/** AAD of a sealed header value. */
export const headerAad = (keyId: string, subscriptionId: string, name: string): string =>
  `header:${keyId}:${subscriptionId}:${name.toLowerCase()}`;

/** Returns the secrets that sign now, newest first. */
export const liveSecrets = (sub: Subscription, now: number): readonly SealedSecret[] =>
  sub.secrets.filter((secret) => secret.expiresAt === undefined || secret.expiresAt > now);

/**
 * How long the record of a deleted subscription stays, ms. Its pending deliveries have ended as cancelled long before.
 */
export const TOMBSTONE_MS = 30 * 86_400_000;
