/**
 * Slots: how many attempts may be on the wire, in all and per subscription, shared out so that nobody is starved.
 *
 * - Receivers are served in bands by how fast they answer, each of which holds at most a part of all slots (`SHARES`): slow
 *   ones together less than half, so that a quick one finds a slot at once.
 * - One key, and one origin, holds at most so much that a part stays free for others: of the slots for quick receivers,
 *   unless it is the only one, and of those for slow receivers.
 * - A subscription of which nothing is known has few attempts at once, and those count with the slow ones.
 * - The queue holds back what does not fit; who comes next is decided here (`SlotRoom`).
 */
import type { Clock } from "../ports/clock.ts";
import { Holding, SlotLedger, type SlotRequest } from "./slot-ledger.ts";
import { SlotWaiters, type WaitingReceiver } from "./slot-waiters.ts";
import { bandOf, RECOVERING, UNKNOWN, type ReceiverSpeed } from "./receiver-speed.ts";

/** A promised slot that nobody came for is free again after so long, ms. */
const PROMISE_MS = 2_000;
/** How long the queue holds back a subscription that waits, ms; it is lifted as soon as there is a slot. */
const QUICK_HOLD_MS = 100;
const SLOW_HOLD_MS = 10_000;
/** The same for one that there is no room to remember, ms. */
const STRANGER_HOLD_MS = 30_000;
/** One delivery's right to be on the wire. */
export interface Slot {
  /** The attempt leaves for this URL now. */
  toward(url: string): void;
  /** The attempt has ended. */
  took(): void;
  /** Gives it back; a second time does nothing. */
  give(): void;
  /**
   * The attempt is off the wire, and that it succeeded is not stored yet: gives the slot back at once, so that the wire
   * does not wait for the disk. False, and the slot is kept, while as many results as there are slots wait to be stored:
   * so few are sent again after a crash.
   */
  giveEarly(): boolean;
  /** The result of an attempt whose slot was given back early is stored, or never will be. */
  stored(): void;
}

export interface Slots {
  /** What a claim is to count as under way of each subscription, so that it finds no more of it than fits here. */
  readonly busy: ReadonlyMap<string, number>;
  /** Free slots in all. */
  free(): number;
  /** How often one was given back so far. */
  given(): number;
  /**
   * A slot for what was claimed; or how long the queue is to hold back its subscription, ms, before the delivery goes back
   * unharmed. 0: what is under way of it is enough, and frees its way when it ends.
   */
  admit(to: SlotRequest): Slot | number;
  /**
   * Waits for a slot; who waits comes before new claims. Resolves to nothing when it may take long: then the delivery is to
   * go back. @throws the signal's reason
   */
  wait(to: SlotRequest, signal: AbortSignal): Promise<Slot | undefined>;
  /** Resolves when a slot is given back next, or `signal` aborts. */
  freed(signal: AbortSignal): Promise<void>;
}

export interface SlotsOptions {
  readonly total: number;
  readonly perSubscription: number;
  readonly clock: Clock;
  /** The queue need hold back this subscription no longer. */
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
  /** Slots for subscriptions that the queue has stopped holding back, oldest first. */
  const promised = new Map<ReceiverSpeed, { readonly slot: HeldSlot; readonly at: number }>();
  const watchers = new Set<() => void>();
  let storing = 0;
  let given = 0;

  /** Methods stand on the prototype, so that a delivery makes no closures of them. */
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
      for (const tell of watchers) tell();
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

  /** What was promised is free for who fetches it. */
  const free = (): number => Math.max(0, ledger.free + promised.size);

  /** Tells claims how many more of it fit. */
  function report(receiver: ReceiverSpeed): void {
    if (receiver.held === 0) return void busy.delete(receiver.id);
    const more = promised.has(receiver) ? 1 : Math.max(0, ledger.most(receiver) - receiver.held);
    busy.set(receiver.id, perSubscription - more);
  }

  /** Slots to those who wait, as far as there are any for them. */
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
    ledger.look();
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
      if (!room.name(receiver)) return STRANGER_HOLD_MS;
      return bandOf(receiver) < UNKNOWN ? QUICK_HOLD_MS : SLOW_HOLD_MS;
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
        const tell = (): void => {
          signal.removeEventListener("abort", stop);
          resolve();
        };
        const stop = (): void => {
          watchers.delete(tell);
          resolve();
        };
        watchers.add(tell);
        signal.addEventListener("abort", stop, { once: true });
      });
    },
  };
}
