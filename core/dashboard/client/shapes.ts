/** The answers of the API, as far as the page uses them. */

export type DeliveryStatus = "pending" | "delivered" | "failed" | "cancelled";
export type EventStatus = DeliveryStatus | "unmatched";

export interface Retry {
  readonly attempts: number;
  readonly firstDelayMs: number;
  readonly factor: number;
  readonly maxDelayMs: number;
}

export interface Subscription {
  readonly id: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly status: "active" | "disabled";
  readonly createdAt?: string;
  readonly updatedAt?: string;
  readonly description?: string;
  readonly rateLimit?: { readonly perSecond: number };
  readonly timeoutMs?: number;
  readonly retry?: Retry;
  readonly headers?: Readonly<Record<string, null>>;
  readonly clientCertificate?: { readonly subject: string; readonly fingerprint: string; readonly notAfter: string };
  readonly oauth2?: { readonly tokenUrl: string; readonly clientId: string };
  readonly disabledReason?: "endpoint_gone" | "endpoint_failing";
}

export interface Secreted extends Subscription {
  readonly secret: string;
  readonly previousSecretExpiresAt?: string | null;
}

export interface Sums {
  readonly accepted: number;
  readonly delivered: number;
  readonly failed: number;
  readonly attempts: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
}

/** A subscription and its state. */
export interface Glance extends Subscription {
  readonly figures: Sums & { readonly backlog: number };
  readonly failuresInARow: number;
  readonly failingSince?: string;
  readonly restsUntil?: string;
  readonly lastDelivery?: {
    readonly eventId: string;
    readonly status: DeliveryStatus;
    readonly at: string;
    readonly statusCode?: number;
    readonly error?: string;
  };
}

export type Column = readonly (number | null)[];
export type Range = "1h" | "24h" | "7d";

export interface Chart {
  readonly range: Range;
  readonly stepMs: number;
  readonly from: string;
  readonly series: Readonly<Record<keyof Sums | "backlog", Column>> & {
    readonly refused: Readonly<Record<string, Column>>;
  };
  readonly totals: Sums & { readonly refused: Readonly<Record<string, number>> };
}
export interface Stats extends Chart {
  readonly subscriptions: readonly Glance[];
}

export interface Attempt {
  readonly id: string;
  readonly cycle: number;
  readonly number: number;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly statusCode?: number;
  readonly error?: string;
  readonly responseExcerpt?: string;
  readonly responseTruncated?: boolean;
}

export interface Delivery {
  readonly id: string;
  readonly eventId?: string;
  readonly subscriptionId: string;
  readonly status: DeliveryStatus;
  readonly reason?: string;
  readonly cycle: number;
  readonly attempts: readonly Attempt[];
  readonly nextAttemptAt?: string;
  readonly updatedAt: string;
}

export interface RelayEvent {
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  readonly createdAt: string;
  readonly acceptedAt: string;
  readonly status: EventStatus;
  /** Its stored record is damaged: what is shown may be wrong, and it cannot be sent. */
  readonly damaged?: true;
}
export interface EventDetail extends RelayEvent {
  readonly deliveries: readonly Delivery[];
}

export interface AuditLine {
  readonly at: string;
  readonly by: string;
  readonly address?: string;
  readonly requestId?: string;
  readonly action: string;
  readonly target: string;
  readonly result: string;
  readonly detail?: string;
}

export interface Replayed {
  readonly matched: number;
  readonly replayed: number;
  readonly more: boolean;
}

/** Whether a pattern of a subscription matches a name, as in the relay itself. */
export const isPattern = (text: string): boolean =>
  text.length <= 128 && /^(?:[A-Za-z0-9_-]+|\*)(?:[:.](?:[A-Za-z0-9_-]+|\*))*$/.test(text);
