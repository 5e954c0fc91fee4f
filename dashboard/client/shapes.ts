/**
 * The answers of the API as the page reads them. Their types are those of the schemas that the API documents; only types
 * are imported, so that no schema is in the page's bundle.
 */
import type { z } from "zod";
import type { shownAttention } from "../../core/api/resources/attention.ts";
import type { attempt } from "../../core/api/resources/attempts.ts";
import type { auditLine } from "../../core/api/resources/audit.ts";
import type { apiKey, eventType, eventTypeDetail } from "../../core/api/resources/catalogue.ts";
import type { bulkReplayed, eventDelivery, listedDelivery } from "../../core/api/resources/deliveries.ts";
import type { acceptedByHand, listedEvent, shownEvent } from "../../core/api/resources/events.ts";
import type { eventStatuses } from "../../core/api/resources/fields.ts";
import type { shownFilter } from "../../core/api/resources/filter-schema.ts";
import type { orderShown } from "../../core/api/resources/order.ts";
import type { keyStats } from "../../core/api/resources/stats.ts";
import type { rotatedSubscription, shownSubscription } from "../../core/api/resources/subscription-schema.ts";
import type { filterTested, transformTested } from "../../core/api/resources/subscription-tests.ts";
import type * as auth from "../../core/ports/auth.ts";

export type EventStatus = z.infer<typeof eventStatuses>;

type Shown = z.infer<typeof shownSubscription>;
/** A subscription of any answer: some leave one of the times out. */
export type Subscription = Omit<Shown, Times> & Partial<Pick<Shown, Times>>;
type Times = "createdAt" | "updatedAt";

export type Filter = z.infer<typeof shownFilter>;
export type FilterTested = z.infer<typeof filterTested>;
export type TransformTested = z.infer<typeof transformTested>;

/** A subscription with its new secret. */
export type Secreted = Subscription &
  Pick<z.infer<typeof rotatedSubscription>, "secret"> &
  Partial<Pick<z.infer<typeof rotatedSubscription>, "previousSecretExpiresAt">> & {
    /** Says what may not have been meant. */
    readonly warnings?: readonly string[] | undefined;
  };

export type ListedKey = z.infer<typeof apiKey>;
export type Stats = z.infer<typeof keyStats>;
export type Chart = Omit<Stats, "subscriptions">;
export type Column = Stats["series"]["accepted"];
export type Range = Stats["range"];
export type Glance = Stats["subscriptions"][number];

export type Attention = z.infer<typeof shownAttention>;
export type FailureGroup = NonNullable<Attention["failures"]>[number];

export type Attempt = z.infer<typeof attempt>;
export interface FoundAttempt extends Attempt {
  readonly eventId: string;
  readonly type: string;
  readonly acceptedAt: string;
  readonly subscriptionId: string;
  readonly subscriptionName?: string;
  readonly deliveryStatus: Delivery["status"];
}
export type Delivery = z.infer<typeof eventDelivery> &
  Partial<Pick<z.infer<typeof listedDelivery>, "eventId" | "type">>;
type Listed = z.infer<typeof listedEvent>;
type ListedOnly = "recipients" | "deliveryCounts" | "subscriptionIds" | "subscriptionName" | "lastAttempt";
/** An event of any answer: only a list says where it went. */
export type RelayEvent = Omit<Listed, ListedOnly> & Partial<Pick<Listed, ListedOnly>>;
export type EventDetail = z.infer<typeof shownEvent>;
export type Published = z.infer<typeof acceptedByHand>;
export type AuditLine = z.infer<typeof auditLine>;
export type Order = z.infer<typeof orderShown>;
export type EventTypeHead = z.infer<typeof eventType>;
export type EventTypeDetail = z.infer<typeof eventTypeDetail>;
/** An account as `/auth/users` lists it. */
export type Account = Omit<auth.Account, "createdAt" | "lastLoginAt"> & {
  readonly createdAt: string;
  readonly lastLoginAt?: string;
};
export type Replayed = z.infer<typeof bulkReplayed>;

/** The settings in the address of a view. */
export type Query = Readonly<Record<string, string>>;
export interface OfKey {
  readonly keyId: string;
}
export interface ViewProps extends OfKey {
  readonly query: Query;
}
export interface OneProps extends OfKey {
  readonly id: string;
}
export interface KeyDialogProps extends OfKey {
  readonly close: () => void;
}
