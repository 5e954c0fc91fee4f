/**
 * Queues subscriptions that wait for a slot. The next is the one with the lowest cost: the slots that its key and
 * origin hold, times how long its attempts take. So slots are shared out over keys and origins by time, not by number.
 */
import { bandOf, expectedMs, UNKNOWN, type Party, type ReceiverSpeed } from "./receiver-speed.ts";
import { Rotation } from "./rotation.ts";

/** Most slow subscriptions remembered. Others come again by themselves when the queue no longer holds them back. */
const MOST = 10_000;
/** Most subscriptions that are looked at to find the next. */
const LOOKS = 256;

export interface WaitingReceiver<Slot> {
  readonly receiver: ReceiverSpeed;
  /** Deliveries that wait under their lease, first come first served. */
  readonly waiters: Set<(slot: Slot) => void>;
  /** Whether the queue holds back more of it. */
  named: boolean;
}

export class SlotWaiters<Slot> {
  readonly #quick = new Side<Slot>();
  readonly #slow = new Side<Slot>();

  get empty(): boolean {
    return this.#quick.size === 0 && this.#slow.size === 0;
  }

  /** Returns how many quick subscriptions wait. */
  get quick(): number {
    return this.#quick.size;
  }

  /** Notes that the queue holds this subscription back. False when there is no room to remember it. */
  name(receiver: ReceiverSpeed): boolean {
    const entry = this.#entryOf(receiver);
    if (entry === undefined) return false;
    return (entry.named = true);
  }

  /** Notes that the queue no longer holds it back. */
  unname(receiver: ReceiverSpeed): void {
    if (!receiver.waiting) return;
    const entry = this.#find(receiver);
    if (entry === undefined) return;
    entry.named = false;
    this.#tidy(entry);
  }

  join(receiver: ReceiverSpeed, waiter: (slot: Slot) => void): void {
    this.#entryOf(receiver)?.waiters.add(waiter);
  }

  part(receiver: ReceiverSpeed, waiter: (slot: Slot) => void): void {
    const entry = this.#find(receiver);
    if (entry === undefined) return;
    entry.waiters.delete(waiter);
    this.#tidy(entry);
  }

  /** Its speed has changed. */
  moved(receiver: ReceiverSpeed): void {
    if (!receiver.waiting) return;
    const entry = this.#find(receiver);
    const side = this.#sideOf(receiver);
    if (entry === undefined || side.has(receiver)) return;
    this.#quick.delete(receiver);
    this.#slow.delete(receiver);
    side.add(entry);
  }

  /**
   * Returns the next of those that fit: among the quick ones, or among all when `alsoSlow`. Looks at some hundred of
   * them, at some of each key, and at others the next time: it is called for each slot that is given back.
   */
  next(fits: (receiver: ReceiverSpeed) => boolean, alsoSlow: boolean): WaitingReceiver<Slot> | undefined {
    return this.#quick.best("held", fits) ?? (alsoSlow ? this.#slow.best("slow", fits) : undefined);
  }

  #sideOf(receiver: ReceiverSpeed): Side<Slot> {
    return bandOf(receiver) < UNKNOWN ? this.#quick : this.#slow;
  }

  #find(receiver: ReceiverSpeed): WaitingReceiver<Slot> | undefined {
    return this.#quick.get(receiver) ?? this.#slow.get(receiver);
  }

  #entryOf(receiver: ReceiverSpeed): WaitingReceiver<Slot> | undefined {
    const known = this.#find(receiver);
    if (known !== undefined) return known;
    const side = this.#sideOf(receiver);
    if (side === this.#slow && side.size >= MOST) return undefined;
    const made: WaitingReceiver<Slot> = { receiver, waiters: new Set(), named: false };
    side.add(made);
    receiver.waiting = true;
    return made;
  }

  #tidy({ receiver, waiters, named }: WaitingReceiver<Slot>): void {
    if (named || waiters.size > 0) return;
    this.#quick.delete(receiver);
    this.#slow.delete(receiver);
    receiver.waiting = false;
  }
}

/** The quick or the slow ones, by key. */
class Side<Slot> {
  readonly #entries = new Map<ReceiverSpeed, WaitingReceiver<Slot>>();
  readonly #keys = new Map<Party, Rotation<WaitingReceiver<Slot>>>();
  readonly #turn = new Rotation<Rotation<WaitingReceiver<Slot>>>();

  get size(): number {
    return this.#entries.size;
  }

  has(receiver: ReceiverSpeed): boolean {
    return this.#entries.has(receiver);
  }

  get(receiver: ReceiverSpeed): WaitingReceiver<Slot> | undefined {
    return this.#entries.get(receiver);
  }

  add(entry: WaitingReceiver<Slot>): void {
    const { receiver } = entry;
    this.#entries.set(receiver, entry);
    let ofKey = this.#keys.get(receiver.key);
    if (ofKey === undefined) {
      ofKey = new Rotation();
      this.#keys.set(receiver.key, ofKey);
      this.#turn.add(ofKey);
    }
    ofKey.add(entry);
  }

  delete(receiver: ReceiverSpeed): void {
    const entry = this.#entries.get(receiver);
    const ofKey = this.#keys.get(receiver.key);
    if (entry === undefined || ofKey === undefined) return;
    this.#entries.delete(receiver);
    ofKey.delete(entry);
    if (ofKey.size > 0) return;
    this.#keys.delete(receiver.key);
    this.#turn.delete(ofKey);
  }

  /** Returns the one with the lowest cost of those that it looks at and that fit. */
  best(what: "held" | "slow", fits: (receiver: ReceiverSpeed) => boolean): WaitingReceiver<Slot> | undefined {
    let found: WaitingReceiver<Slot> | undefined;
    let least = Number.POSITIVE_INFINITY;
    const each = Math.max(1, Math.floor(LOOKS / this.#turn.size));
    for (let keys = Math.min(LOOKS, this.#turn.size); keys > 0; keys--) {
      const ofKey = this.#turn.next() as Rotation<WaitingReceiver<Slot>>;
      for (let looks = Math.min(each, ofKey.size); looks > 0; looks--) {
        const entry = ofKey.next() as WaitingReceiver<Slot>;
        const { receiver } = entry;
        if (!fits(receiver)) continue;
        const { key, origin, held } = receiver;
        // Its own slots decide among subscriptions of the same key and origin.
        const cost = (key[what] + (origin?.[what] ?? 0) + held / 1_000 + 1) * expectedMs(receiver);
        if (cost >= least) continue;
        least = cost;
        found = entry;
      }
    }
    return found;
  }
}
