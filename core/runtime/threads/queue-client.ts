/** The queue of a storage that another thread holds. It knows the leases of this node, so that each attempt asks nobody. */
import { StorageError } from "../../model/errors.ts";
import { Waiters } from "../../model/waiters.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Lease, Queue, QueueDepth } from "../../ports/storage.ts";
import { flat } from "./flat-changes.ts";
import type { Link } from "./link.ts";
import {
  FRESH_MS,
  leaseName,
  type ClaimAnswer,
  type ClaimCall,
  type ExtendCall,
  type ReleaseCall,
  type SettleCall,
} from "./storage-calls.ts";

export interface QueueClient {
  readonly port: Queue;
  /** Something may be claimed. */
  wakeUp(): void;
  /** Leases of the subscription are lost. */
  cancelled(subscriptionId: string): void;
  /** Ends every wait; nothing is claimed any more. */
  close(): void;
}

/** @param deps.heardAt monotonic ms of the last message from the other side */
export function queueClient(deps: {
  readonly link: Link;
  readonly clock: Pick<Clock, "monotonic">;
  readonly heardAt: () => number;
}): QueueClient {
  const { link, clock, heardAt } = deps;
  /** Tokens of the leases of this node. */
  const held = new Map<string, string>();
  const waiters = new Waiters();
  // What was due before this node came is not announced again.
  let notified = true;
  let closed = false;

  function wakeUp(): void {
    notified = true;
    waiters.wake();
  }

  function forget(name: string, token: string): void {
    if (held.get(name) === token) held.delete(name);
  }

  function claimed(leases: ClaimAnswer): void {
    for (const lease of leases) held.set(leaseName(lease), lease.token);
  }

  const port: Queue = {
    add(dues) {
      if (dues.length > 0) link.send("add", dues);
    },
    claim({ limit, perSubscription, busy }) {
      notified = false;
      if (closed) return Promise.reject(new StorageError("unavailable", "the storage is closed"));
      const call: ClaimCall = [limit, perSubscription, [...busy]];
      return link.call<readonly Lease[]>("claim", call, claimed);
    },
    wake(signal) {
      return notified || closed ? Promise.resolve() : waiters.wait(signal);
    },
    extend(lease) {
      const call: ExtendCall = [leaseName(lease), lease.token];
      if (held.get(call[0]) !== lease.token) return false;
      // A thread that hung may have missed a cancel: the other side waits for it only so long.
      return clock.monotonic() - heardAt() < FRESH_MS ? true : link.call<boolean>("extend", call);
    },
    async settle(lease, changes, then) {
      const name = leaseName(lease);
      const call: SettleCall = [name, lease.token, flat(changes), then];
      await link.call<void>("settle", call, () => {
        if (then?.keep === undefined) forget(name, lease.token);
      });
    },
    release(lease, dueAt) {
      const call: ReleaseCall = [leaseName(lease), lease.token, dueAt];
      forget(call[0], lease.token);
      return link.call<void>("release", call);
    },
    pause: (subscriptionId, ms) => link.call<void>("pause", [subscriptionId, ms]),
    hold: (subscriptionId, ms) => link.call<void>("hold", [subscriptionId, ms]),
    cancel: (subscriptionId) => link.call<void>("cancel", [subscriptionId]),
    sweep: () => link.call<number>("sweep", []),
    depth: () => link.call<QueueDepth>("depth", []),
    pending: (subscriptionIds) => link.call<number>("pending", [subscriptionIds]),
  };

  return {
    port,
    wakeUp,
    cancelled(subscriptionId) {
      const prefix = `${subscriptionId} `;
      for (const name of held.keys()) if (name.startsWith(prefix)) held.delete(name);
    },
    close() {
      closed = true;
      wakeUp();
    },
  };
}
