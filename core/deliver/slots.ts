/**
 * Shares out slots: how many attempts may be in flight, in all and per subscription, so that nobody is starved.
 *
 * - Receivers are served in bands by how fast they answer. Each band holds at most a part of all slots (`SHARES`): slow
 *   ones less than half, so that a quick one finds a slot at once.
 * - One key, or one origin, leaves a part of the slots free for others: of those for quick receivers, unless it is the
 *   only one, and of those for slow receivers.
 * - A subscription of which nothing is known has few attempts at once, which count with the slow ones.
 * - The queue holds back what does not fit; the order in which it comes is decided here (`SlotWaiters`).
 */
import type { Clock } from "../ports/clock.ts";
import { Holding, SlotLedger, type SlotRequest } from "./slot-ledger.ts";
import { SlotWaiters, type WaitingReceiver } from "./slot-waiters.ts";
import { bandOf, RECOVERING, UNKNOWN, type ReceiverSpeed } from "./receiver-speed.ts";

/** A promised slot that nobody fetched is free again after this long, ms. */
const PROMISE_MS = 2_000;
/**
 * How long the queue holds back a waiting subscription, ms; lifted as soon as there is a slot. Quick ones are held back for
 * at least a millisecond for each that waits: however many wait, about a thousand a second come again by themselves.
 */
const QUICK_HOLD_MS = 100;
const SLOW_HOLD_MS = 10_000;
/** The same for a subscription that there is no room to remember, ms. */
const UNREMEMBERED_HOLD_MS = 30_000;
/** One delivery's right to have a request in flight. */
export interface Slot {
  /** The attempt is sent to this URL now. */
  toward(url: string): void;
  /** The attempt has ended. */
  took(): void;
  /** Gives it back; a second call does nothing. */
  give(): void;
  /**
   * Gives the slot back before a success is stored, so that sending does not wait for the disk. Returns false, and
   * keeps the slot, while as many results wait to be stored as there are slots: this bounds what is sent again after a
   * crash.
   */
  giveEarly(): boolean;
  /** The result of an attempt that gave its slot back early is stored, or never will be. */
  stored(): void;
}

export interface Slots {
  /** What a claim counts as under way of each subscription, so that it finds no more of it than fits here. */
  readonly busy: ReadonlyMap<string, number>;
  /** Returns the free slots in all. */
  free(): number;
  /** Returns how often a slot was given back so far. */
  given(): number;
  /**
   * Returns a slot for a claimed delivery, or how long the queue holds back its subscription, ms, before the delivery
   * goes back unharmed. 0: enough of it is under way, and frees its slots when it ends.
   */
  admit(to: SlotRequest): Slot | number;
  /**
   * Waits for a slot; waiters come before new claims. Resolves to `undefined` when it may take long: then the delivery
   * goes back.
   * @throws the signal's reason
   */
  wait(to: SlotRequest, signal: AbortSignal): Promise<Slot | undefined>;
  /** Resolves when a slot is given back next, or `signal` aborts. */
  freed(signal: AbortSignal): Promise<void>;
}

interface SlotsOptions {
  readonly total: number;
  readonly perSubscription: number;
  readonly clock: Clock;
  /** Tells the queue to stop holding back this subscription. */
  readonly lift: (subscriptionId: string) => void;
}

export function createSlots({ total, perSubscription, clock, lift }: SlotsOptions): Slots {
  const busy = new Map<string, number>();
  const room = new SlotWaiters<HeldSlot>();
  const ledger = new SlotLedger(total, perSubscription, clock, (receiver) => {
    report(receiver);
    room.moved(receiver);
  });
  const fits = (receiver: ReceiverSpeed): boolean => ledger.fits(receiver);
  /** Slots for subscriptions that the queue no longer holds back, oldest first. */
  const promised = new Map<ReceiverSpeed, { readonly slot: HeldSlot; readonly at: number }>();
  const watchers = new Set<() => void>();
  let storing = 0;
  let given = 0;

  /** It has methods on the prototype, so that a delivery makes no closures for them. */
  class HeldSlot extends Holding implements Slot {
    #open = true;

    give(): void {
      if (!this.#open) return;
      this.#open = false;
      this.drop();
      given++;
      report(this.receiver);
      if (!room.empty) promote(this.band >= UNKNOWN);
      if (watchers.size === 0 || free() === 0) return;
      for (const wake of watchers) wake();
      watchers.clear();
    }

    giveEarly(): boolean {
      if (this.receiver.storing >= perSubscription || storing >= total) return false;
      this.receiver.storing++;
      storing++;
      this.give();
      return true;
    }

    stored(): void {
      storing--;
      this.receiver.storing--;
    }
  }

  function take(receiver: ReceiverSpeed): HeldSlot {
    const slot = new HeldSlot(receiver, ledger);
    report(receiver);
    return slot;
  }

  /** Promised slots are free for those that fetch them. */
  const free = (): number => Math.max(0, ledger.free + promised.size);

  /** Updates how many more of it claims may take. */
  function report(receiver: ReceiverSpeed): void {
    if (receiver.held === 0) return void busy.delete(receiver.id);
    const more = promised.has(receiver) ? 1 : Math.max(0, ledger.most(receiver) - receiver.held);
    busy.set(receiver.id, perSubscription - more);
  }

  /** Gives slots to those that wait, while there are any for them. */
  function promote(slowGave: boolean): void {
    const alsoSlow = slowGave || ledger.slowWaits;
    ledger.slowWaits = false;
    while (ledger.free > 0) {
      const entry = room.next(fits, alsoSlow && ledger.freeForSlow > 0);
      if (entry === undefined) return;
      grant(entry);
    }
  }

  function grant({ receiver, waiters }: WaitingReceiver<HeldSlot>): void {
    const [first] = waiters;
    if (first !== undefined) {
      room.part(receiver, first);
      return first(take(receiver));
    }
    room.unname(receiver);
    promised.set(receiver, { slot: take(receiver), at: clock.monotonic() });
    report(receiver);
    lift(receiver.id);
  }

  function look(): void {
    // What counts as slow now leaves room for quick ones.
    if (ledger.look() && !room.empty) promote(false);
    if (promised.size === 0) return;
    const now = clock.monotonic();
    for (const [receiver, { slot, at }] of promised) {
      if (now - at < PROMISE_MS) return;
      promised.delete(receiver);
      slot.give();
    }
  }

  return {
    busy,
    free,
    given: () => given,
    admit(to) {
      look();
      const receiver = ledger.receiverOf(to);
      const kept = promised.get(receiver);
      if (kept !== undefined) {
        promised.delete(receiver);
        report(receiver);
        return kept.slot;
      }
      if (receiver.held >= ledger.most(receiver)) return 0;
      if (fits(receiver)) {
        room.unname(receiver);
        return take(receiver);
      }
      if (!room.name(receiver)) return UNREMEMBERED_HOLD_MS;
      return bandOf(receiver) < UNKNOWN ? Math.max(QUICK_HOLD_MS, room.quick) : SLOW_HOLD_MS;
    },
    async wait(to, signal) {
      signal.throwIfAborted();
      look();
      const receiver = ledger.receiverOf(to);
      if (fits(receiver)) return take(receiver);
      if (bandOf(receiver) >= RECOVERING) return undefined;
      return await new Promise<Slot>((resolve, reject) => {
        const stop = (): void => {
          room.part(receiver, go);
          reject(signal.reason as Error);
        };
        const go = (slot: Slot): void => {
          signal.removeEventListener("abort", stop);
          resolve(slot);
        };
        room.join(receiver, go);
        signal.addEventListener("abort", stop, { once: true });
      });
    },
    freed(signal) {
      if (signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const wake = (): void => {
          signal.removeEventListener("abort", stop);
          resolve();
        };
        const stop = (): void => {
          watchers.delete(wake);
          resolve();
        };
        watchers.add(wake);
        signal.addEventListener("abort", stop, { once: true });
      });
    },
  };
}
