/** Deliveries: what they share, and how one begins. */
import type { Lease } from "../ports/storage.ts";
import type { AttemptDeps } from "./dependencies.ts";
import { Attempts } from "./delivery.ts";
import { createOwnFaults } from "./own-faults.ts";
import type { Slot } from "./slots.ts";
import { createTell, type Seen } from "./report.ts";

export interface DeliverDeps extends Omit<AttemptDeps, "tell" | "heldWaits" | "faults"> {
  readonly seen: readonly Seen[];
}

/**
 * Makes the attempts that are left, in the slot that was taken for it. Resolves when the delivery has ended, went back to the
 * queue, or was lost; the slot is given back by then. When `draining` aborts, waits end at once and their deliveries go
 * back with the times that they wait for; requests under way go on.
 * @throws a fault of ours: the delivery is as it was, and the lease still held
 */
export type Deliver = (lease: Lease, slot: Slot, signal: AbortSignal, draining?: AbortSignal) => Promise<void>;

export function createDeliver(deps: DeliverDeps): Deliver {
  const shared: AttemptDeps = { ...deps, tell: createTell(deps), faults: createOwnFaults(), heldWaits: 0 };
  return (lease, slot, signal, draining) => new Attempts(lease, slot, signal, draining, shared).run();
}
