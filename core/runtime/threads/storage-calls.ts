/** What a node's thread and the thread that holds the storage say to each other: the storage port in messages. */
import type { Due } from "../../model/delivery.ts";
import type { Durability, Lease, Queue, Storage } from "../../ports/storage.ts";
import type { FlatChanges } from "./flat-changes.ts";

/** The storage as a thread meets it at its start. */
export interface StorageFacts {
  readonly name: string;
  readonly durability: Durability;
  /** Optional members of the port that it has. */
  readonly has: readonly OptionalCall[];
  /** Whether suspensions have to be stored, to outlive the process. */
  readonly suspends: boolean;
  /** Whether this thread restores stored suspensions. The others would undo what was counted meanwhile. */
  readonly restores: boolean;
  /** Of the last change to subscriptions: see `HeardChanges`. */
  readonly epoch: number;
}

export const OPTIONAL_CALLS = ["room", "time", "verify", "tap"] as const;
export type OptionalCall = (typeof OPTIONAL_CALLS)[number];

/** Members of the storage that are passed on as they are. */
export const PLAIN_CALLS = [
  ...(["getMany", "range", "status", "getItems"] as const),
  ...(["setItem", "setItems", "removeItem", "getKeys", "clear", "room", "time", "verify"] as const),
] as const satisfies readonly (keyof Storage)[];

/** Members of the queue that are passed on as they are. */
export const PLAIN_QUEUE_CALLS = ["pause", "hold", "sweep", "pending"] as const satisfies readonly (keyof Queue)[];

/** Names a lease among those of one thread. */
export const leaseName = ({ subscriptionId, ordinal }: Pick<Due, "subscriptionId" | "ordinal">): string =>
  `${subscriptionId} ${ordinal}`;

/** `then` of `Queue.settle`. */
export type Then = { readonly next?: Due; readonly keep?: Due } | undefined;

/** A commit. `knows`: the epoch known when its new events were fanned out; `undefined` where it has none. */
export type CommitCall = readonly [changes: FlatChanges, knows: number | undefined];
export type SettleCall = readonly [name: string, token: string, changes: FlatChanges, then: Then];
export type WithdrawCall = readonly [line: Due, changes: FlatChanges, next: Due | undefined];
export type ReleaseCall = readonly [name: string, token: string, dueAt: number | undefined];
export type ExtendCall = readonly [name: string, token: string];
/** A claim, or what a node that waits may be given. `busy` crosses as pairs: it may be a view of several maps, of which a copy would be empty. */
export type ClaimCall = readonly [limit: number, perSubscription: number, busy: readonly (readonly [string, number])[]];
export type ClaimAnswer = readonly Lease[];

/** The lease without what else a storage keeps in it, such as a timer, which could not cross to a thread. */
export const plainLease = (lease: Lease): Lease => ({
  subscriptionId: lease.subscriptionId,
  keyId: lease.keyId,
  ordinal: lease.ordinal,
  dueAt: lease.dueAt,
  generation: lease.generation,
  cycle: lease.cycle,
  attempts: lease.attempts,
  token: lease.token,
  ...(lease.waitMs !== undefined && { waitMs: lease.waitMs }),
  ...(lease.order !== undefined && { order: lease.order }),
  ...(lease.damaged !== undefined && { damaged: lease.damaged }),
});

/** A thread that has heard nothing from the storage for this long asks it before each attempt, ms. */
export const SIGN_OF_LIFE_MS = 3_000;
/** Longest time that a cancel waits for a thread which does not answer, ms: after `SIGN_OF_LIFE_MS` it trusts no lease. */
export const CANCEL_MS = 5_000;
