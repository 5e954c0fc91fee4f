/** A subscription: a URL, event names, a status and a secret, owned by one API key. */
import { damageOf, verified, withChecksum } from "../lib/checksum.ts";
import type { StoredClientCertificate, StoredOauth2, StoredUrl } from "./credentials.ts";
import type { Filter, FilterPath } from "./filter.ts";
import type { Codec } from "./kind.ts";
import { matchesPattern } from "./names.ts";

export type SubscriptionStatus = "active" | "disabled";
/** Why the relay disabled it: the endpoint answered 410, asked for it, or only failed for days. Absent when a person did. */
export type DisabledReason = "endpoint_gone" | "receiver_disabled" | "endpoint_failing";
/** Never stored: what is shown of a subscription whose record is damaged. */
export type RecordDamaged = "record_damaged";

/** `skip`: the next delivery goes. `hold`: they wait until the failed one is replayed or skipped. */
export type OnFailed = "skip" | "hold";

/** When a failed attempt is made again: after waits that grow, or after waits that are listed. */
export type RetryOptions = Backoff | RetrySchedule;

export interface Backoff {
  /** Attempts in all, the first one included. */
  readonly attempts: number;
  /** The wait after the first attempt. */
  readonly firstDelayMs: number;
  /** Each further wait is this many times the one before. */
  readonly factor: number;
  /** The longest wait. A subscription may set up to a day. */
  readonly maxDelayMs: number;
  readonly delaysMs?: undefined;
}

export interface RetrySchedule {
  /** Attempts in all: one more than there are waits. */
  readonly attempts: number;
  /** The wait after each attempt but the last; 1 to 4 of them, together at most three days. */
  readonly delaysMs: readonly number[];
}

/** A retry policy as a person writes it: any part of a backoff, or a list of waits that stands alone. */
export interface RetrySettings {
  /** Attempts in all, the first one included. */
  readonly attempts?: number;
  /** The wait after the first attempt. */
  readonly firstDelayMs?: number;
  /** Each further wait is this many times the one before. */
  readonly factor?: number;
  /** The longest wait. A subscription may set up to a day. */
  readonly maxDelayMs?: number;
  /** The waits themselves, one after each attempt but the last: 1 to 4, three days at most. Replaces all other parts. */
  readonly delaysMs?: readonly number[];
}

/** The most attempts of one cycle that any policy may ask for. */
export const MOST_ATTEMPTS = 5;
export const DEFAULT_RETRY: Backoff = { attempts: 5, firstDelayMs: 5_000, factor: 4, maxDelayMs: 3_600_000 };
/** Most waits of a schedule: five attempts in all. */
export const MOST_DELAYS = 4;
export const LEAST_DELAY_MS = 10;
/** Longest time from the first attempt to the last of a schedule, without what receivers ask for. */
export const LONGEST_SCHEDULE_MS = 259_200_000;

/** Returns what is wrong with a policy that may mix a list of waits with parts of a backoff; `undefined`: nothing. */
export function scheduleProblem({
  delaysMs,
  ...backoff
}: {
  readonly delaysMs?: readonly number[] | undefined;
}): string | undefined {
  if (delaysMs === undefined) return undefined;
  if (Object.values(backoff).some((value) => value !== undefined))
    return "stands alone: leave out attempts, firstDelayMs, factor and maxDelayMs";
  const sum = delaysMs.reduce((total, ms) => total + ms, 0);
  return sum > LONGEST_SCHEDULE_MS ? `must be at most ${LONGEST_SCHEDULE_MS} together, three days` : undefined;
}

export const scheduleOf = (delaysMs: readonly number[]): RetrySchedule => ({
  attempts: delaysMs.length + 1,
  delaysMs: [...delaysMs],
});

/** A signing secret at rest. */
export interface SealedSecret {
  /** Grows with every secret this subscription ever had; part of the sealing's AAD. */
  readonly version: number;
  readonly sealed: string;
  readonly createdAt: number;
  /** Epoch ms; set on the previous secret of a rotation while both are valid. */
  readonly expiresAt?: number;
}

export interface Subscription extends StoredUrl {
  readonly id: string;
  readonly keyId: string;
  /** Event names and patterns, each once. */
  readonly events: readonly string[];
  /** Absent: it gets every event that its names match. */
  readonly filter?: Filter;
  /** Name of the transform that makes its bodies. Absent: each body is the event itself. */
  readonly transform?: string;
  /** Set when its deliveries go one after another. */
  readonly ordered?: true;
  /** The path of the value by which they are ordered: deliveries of different values do not wait for each other. */
  readonly orderBy?: FilterPath;
  /** Decides what a failed delivery does to those behind it. @default "skip" */
  readonly onFailed?: OnFailed;
  readonly status: SubscriptionStatus;
  readonly disabledReason?: DisabledReason | RecordDamaged;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Epoch ms of the deletion; set on a tombstone. */
  readonly deletedAt?: number;
  /** Set on a tombstone until no node has an attempt of it under way. A repeated DELETE continues an interrupted one. */
  readonly ending?: true;
  /** Grows whenever it stops being active. Deliveries of an older generation have ended and are never sent. */
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

/** How long the record of a deleted subscription stays, ms. Its pending deliveries have ended as cancelled long before. */
export const TOMBSTONE_MS = 30 * 86_400_000;

/**
 * JSON, its checksum first: a single changed character must not send events elsewhere. The time of the change is in it
 * twice: version 0.1.0 knows of no checksum and leaves it as it is when it changes the record, but for `updatedAt`. What it
 * has written has no checksum that counts, and gets it when it changes.
 */
export const subscriptionCodec: Codec<Subscription, Subscription> = {
  write: (sub) => withChecksum(JSON.stringify({ summedAt: sub.updatedAt, ...sub }).slice(1)),
  read(text) {
    const proven = verified(text, '{"id":"');
    const read = JSON.parse(proven?.text ?? text) as Partial<Subscription> & Record<"sum" | "summedAt", unknown>;
    const { sum: _, summedAt, ...sub } = read;
    if (proven === undefined && (!Number.isFinite(summedAt) || summedAt === sub.updatedAt)) throw damageOf(text);
    if (!isSubscription(sub)) throw new SyntaxError("the JSON is not that of a subscription");
    return sub;
  },
  id: (sub) => sub,
};

/** Checks what everything else relies on: a part that is read only where it is used fails there. */
function isSubscription(read: Partial<Subscription>): read is Subscription {
  const { id, keyId, url, events, status, secrets, createdAt, updatedAt, generation, deletedAt } = read;
  return (
    [id, keyId, url].every((text) => typeof text === "string") &&
    (status === "active" || status === "disabled") &&
    Array.isArray(events) &&
    events.every((name) => typeof name === "string") &&
    Array.isArray(secrets) &&
    secrets.every((secret) => typeof secret === "object" && secret !== null) &&
    [createdAt, updatedAt, generation, deletedAt ?? 0].every(Number.isFinite)
  );
}

export interface EndpointHealth {
  /** Failed attempts since the last success. */
  readonly failures: number;
  /** Epoch ms of the first of them. */
  readonly failingSince?: number;
  /** Epoch ms until which the circuit breaker pauses it. */
  readonly restsUntil?: number;
}
