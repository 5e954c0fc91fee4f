/** The leases of one thread, as the storage's side keeps them: they go back to the queue when the thread ends. */
import { LeaseLostError } from "../../model/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Change, Lease, Queue } from "../../ports/storage.ts";
import { leaseName, type Then } from "./storage-calls.ts";

export interface HeldLeases {
  claimed(leases: readonly Lease[]): void;
  /** Whether it is held, also while it is settled or given back. */
  has(name: string): boolean;
  /** @throws LeaseLostError as `Queue.settle` */
  settle(name: string, token: string, changes: readonly Change[], then: Then): Promise<void>;
  release(name: string, token: string, dueAt: number | undefined): Promise<void>;
  extend(name: string, token: string): Promise<boolean>;
  cancelled(subscriptionId: string): void;
  /** Gives every lease back, at the time that its line states. One that is being settled is given back after that. */
  end(): Promise<void>;
}

interface Held {
  readonly lease: Lease;
  /** When its line is due, monotonic ms: later than the claim where a wait is held. The wall clock may be set meanwhile. */
  dueAt: number;
  settling: Promise<void> | undefined;
}

export function heldLeases(queue: Queue, clock: Pick<Clock, "now" | "monotonic">): HeldLeases {
  const held = new Map<string, Held>();
  let ended = false;

  function find(name: string, token: string): Held | undefined {
    const one = held.get(name);
    return one?.lease.token === token ? one : undefined;
  }

  function forget(name: string, one: Held): void {
    if (held.get(name) === one) held.delete(name);
  }

  async function giveBack(name: string, one: Held): Promise<void> {
    await one.settling?.catch(() => undefined);
    if (held.get(name) !== one) return;
    held.delete(name);
    const left = Math.ceil(one.dueAt - clock.monotonic());
    await queue.release(one.lease, left > 0 ? clock.now() + left : undefined);
  }

  async function settled(name: string, one: Held, changes: readonly Change[], then: Then): Promise<void> {
    const dueAt = then?.keep === undefined ? 0 : clock.monotonic() + then.keep.dueAt - clock.now();
    try {
      await queue.settle(one.lease, changes, then);
    } catch (error) {
      if (error instanceof LeaseLostError) forget(name, one);
      throw error;
    } finally {
      one.settling = undefined;
    }
    if (then?.keep === undefined) forget(name, one);
    else one.dueAt = dueAt;
  }

  return {
    has: (name) => held.has(name),
    claimed(leases) {
      for (const lease of leases) {
        const name = leaseName(lease);
        const one: Held = { lease, dueAt: 0, settling: undefined };
        held.set(name, one);
        // The thread ended while its claim was under way.
        if (ended) giveBack(name, one).catch(() => undefined);
      }
    },
    async settle(name, token, changes, then) {
      const one = find(name, token);
      if (one === undefined || one.settling !== undefined) throw new LeaseLostError();
      await (one.settling = settled(name, one, changes, then));
    },
    async release(name, token, dueAt) {
      const one = find(name, token);
      if (one === undefined) return;
      forget(name, one);
      await queue.release(one.lease, dueAt);
    },
    async extend(name, token) {
      const one = find(name, token);
      return one !== undefined && (await queue.extend(one.lease));
    },
    cancelled(subscriptionId) {
      for (const [name, { lease }] of held) if (lease.subscriptionId === subscriptionId) held.delete(name);
    },
    async end() {
      ended = true;
      await Promise.all([...held].map(([name, one]) => giveBack(name, one)));
    },
  };
}
