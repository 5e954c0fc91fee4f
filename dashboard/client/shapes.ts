/**
 * The answers of the API as the page reads them. Their types are those of the schemas that the API documents; only types
 * are imported, so that no schema is in the page's bundle.
 */
import type { z } from "zod";
import type { acceptedByHand } from "../../core/api/resources/publish.ts";
import type { filterTested, shownFilter } from "../../core/api/resources/filter-schema.ts";
import type { listedDelivery, listedEvent } from "../../core/api/resources/listed-event.ts";
import type * as api from "../../core/api/resources/shapes.ts";
import type * as auth from "../../core/ports/auth.ts";
import type { eventStatuses } from "../../core/api/resources/statuses.ts";
import type { transformTested } from "../../core/api/resources/transform-schema.ts";

export type EventStatus = z.infer<typeof eventStatuses>;

type Shown = z.infer<typeof api.shownSubscription>;
/** A subscription of any answer: some leave one of the times out. */
export type Subscription = Omit<Shown, Times> & Partial<Pick<Shown, Times>>;
type Times = "createdAt" | "updatedAt";

export type Filter = z.infer<typeof shownFilter>;
export type FilterTested = z.infer<typeof filterTested>;
export type TransformTested = z.infer<typeof transformTested>;

/** A subscription with its new secret. */
export type Secreted = Subscription &
  Pick<z.infer<typeof api.rotatedSubscription>, "secret"> &
  Partial<Pick<z.infer<typeof api.rotatedSubscription>, "previousSecretExpiresAt">> & {
    /** Says what may not have been meant. */
    readonly warnings?: readonly string[] | undefined;
  };

export type ListedKey = z.infer<typeof api.apiKey>;
export type Stats = z.infer<typeof api.keyStats>;
export type Chart = Omit<Stats, "subscriptions">;
export type Column = Stats["series"]["accepted"];
export type Range = Stats["range"];
export type Glance = Stats["subscriptions"][number];

export type Attempt = z.infer<typeof api.attempt>;
export interface FoundAttempt extends Attempt {
  readonly eventId: string;
  readonly type: string;
  readonly acceptedAt: string;
  readonly subscriptionId: string;
  readonly subscriptionName?: string;
  readonly deliveryStatus: Delivery["status"];
}
export type Delivery = z.infer<typeof api.eventDelivery> &
  Partial<Pick<z.infer<typeof listedDelivery>, "eventId" | "type">>;
type Listed = z.infer<typeof listedEvent>;
type ListedOnly = "recipients" | "subscriptionIds" | "subscriptionName" | "lastAttempt";
/** An event of any answer: only a list says where it went. */
export type RelayEvent = Omit<Listed, ListedOnly> & Partial<Pick<Listed, ListedOnly>>;
export type EventDetail = z.infer<typeof api.shownEvent>;
/** The answer to publishing. */
export type Published = z.infer<typeof acceptedByHand>;
export type AuditLine = z.infer<typeof api.auditLine>;
export type Order = z.infer<typeof api.orderShown>;
export type EventTypeHead = z.infer<typeof api.eventType>;
export type EventTypeDetail = z.infer<typeof api.eventTypeDetail>;
/** An account as `/auth/users` lists it. */
export type Account = Omit<auth.Account, "createdAt" | "lastLoginAt"> & {
  readonly createdAt: string;
  readonly lastLoginAt?: string;
};
export type Replayed = z.infer<typeof api.bulkReplayed>;

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
