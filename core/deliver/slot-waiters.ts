/**
 * Queues subscriptions that wait for a slot. The next is the one with the lowest cost: the slots that its key and
 * origin hold, times how long its attempts take. So slots are shared out over keys and origins by time, not by number.
 */
import { bandOf, expectedMs, UNKNOWN, type ReceiverSpeed } from "./receiver-speed.ts";

/** Most slow subscriptions remembered. Others come again by themselves when the queue no longer holds them back. */
const MOST = 10_000;

export interface WaitingReceiver<Slot> {
  readonly receiver: ReceiverSpeed;
  /** Deliveries that wait under their lease, first come first served. */
  readonly waiters: Set<(slot: Slot) => void>;
  /** Whether the queue holds back more of it. */
  named: boolean;
}

export class SlotWaiters<Slot> {
  readonly #quick = new Map<ReceiverSpeed, WaitingReceiver<Slot>>();
  readonly #slow = new Map<ReceiverSpeed, WaitingReceiver<Slot>>();

  get empty(): boolean {
    return this.#quick.size === 0 && this.#slow.size === 0;
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
    side.set(receiver, entry);
  }

  /** Returns the next of those that fit: among the quick ones, or among all when `alsoSlow`. */
  next(fits: (receiver: ReceiverSpeed) => boolean, alsoSlow: boolean): WaitingReceiver<Slot> | undefined {
    return best(this.#quick, "held", fits) ?? (alsoSlow ? best(this.#slow, "slow", fits) : undefined);
  }

  #sideOf(receiver: ReceiverSpeed): Map<ReceiverSpeed, WaitingReceiver<Slot>> {
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
    side.set(receiver, made);
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

function best<Slot>(
  side: ReadonlyMap<ReceiverSpeed, WaitingReceiver<Slot>>,
  what: "held" | "slow",
  fits: (receiver: ReceiverSpeed) => boolean,
): WaitingReceiver<Slot> | undefined {
  let found: WaitingReceiver<Slot> | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const entry of side.values()) {
    const { receiver } = entry;
    if (!fits(receiver)) continue;
    const { key, origin, held } = receiver;
    // Its own slots decide among subscriptions of the same key and origin.
    const cost = (key[what] + (origin?.[what] ?? 0) + held / 1_000 + 1) * expectedMs(receiver);
    if (cost >= least) continue;
    least = cost;
    found = entry;
  }
  return found;
}
