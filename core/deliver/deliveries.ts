/** Starts deliveries, and holds what they share. */
import type { Lease } from "../ports/storage.ts";
import type { DeliveryDeps } from "./dependencies.ts";
import { DeliveryRun } from "./delivery.ts";
import { createOwnFaults } from "./own-faults.ts";
import type { Slot } from "./slots.ts";
import { createReport } from "./report.ts";
import type { AttemptObserver } from "../ports/observer.ts";

interface DeliveriesDeps extends Omit<DeliveryDeps, "report" | "heldWaits" | "faults"> {
  /** Called for each attempt once its outcome is stored. */
  readonly attempted: AttemptObserver;
}

/**
 * Makes the remaining attempts of a delivery, in the slot taken for it. Resolves when the delivery has ended, went back
 * to the queue, or was lost; the slot is free by then. When `draining` aborts, waits end at once and their deliveries
 * go back with the times that they wait for; requests under way continue.
 * @throws a fault of ours: the delivery is unchanged, and the lease still held
 */
export type Deliver = (lease: Lease, slot: Slot, signal: AbortSignal, draining?: AbortSignal) => Promise<void>;

export function createDeliveries(deps: DeliveriesDeps): Deliver {
  const shared: DeliveryDeps = { ...deps, report: createReport(deps), faults: createOwnFaults(), heldWaits: 0 };
  return (lease, slot, signal, draining) => new DeliveryRun(lease, slot, signal, draining, shared).run();
}
