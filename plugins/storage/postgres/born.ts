/** Lines that this node has leased at birth and not begun: it hands them out itself, subscription by subscription. */
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import type { Lease } from "../../../core/ports/storage.ts";

/** Most of them: what comes beyond waits in the table, for every node. */
const MOST = 1_000;

export class Born {
  /** Leases by subscription, the oldest line first; the subscription whose turn is next comes first. */
  readonly #lists = new Map<string, Lease[]>();
  #size = 0;
  /** Those of the batch under way. */
  #asked = 0;

  get size(): number {
    return this.#size;
  }

  has(subscriptionId: string): boolean {
    return this.#lists.has(subscriptionId);
  }

  subscriptions(): readonly string[] {
    return [...this.#lists.keys()];
  }

  /** Returns whether there is room for one more, and keeps it until the batch ends. */
  ask(): boolean {
    if (this.#size + this.#asked >= MOST) return false;
    this.#asked++;
    return true;
  }

  /** Ends the batch under way. */
  answered(): void {
    this.#asked = 0;
  }

  add(lease: Lease): void {
    let list = this.#lists.get(lease.subscriptionId);
    if (list === undefined) this.#lists.set(lease.subscriptionId, (list = []));
    const key = DUE.key(lease);
    let at = list.length;
    while (at > 0 && DUE.key(list[at - 1] as Lease) > key) at--;
    list.splice(at, 0, lease);
    this.#size++;
  }

  /**
   * Takes up to `limit`, one of each subscription in turn.
   * @param busy how many of each are under way: those that are taken are added
   * @param full gets the subscriptions that have enough under way
   */
  take(limit: number, most: number, busy: Map<string, number>, full: Set<string>): readonly Lease[] {
    const taken: Lease[] = [];
    // A subscription that gave a line goes to the end, where this loop meets it again.
    for (const [sub, list] of this.#lists) {
      if (taken.length >= limit) break;
      const under = busy.get(sub) ?? 0;
      if (under >= most) {
        full.add(sub);
        continue;
      }
      busy.set(sub, under + 1);
      taken.push(list.shift() as Lease);
      this.#size--;
      this.#lists.delete(sub);
      if (list.length > 0) this.#lists.set(sub, list);
    }
    return taken;
  }

  /** Takes all of a subscription. */
  drop(subscriptionId: string): readonly Lease[] {
    const list = this.#lists.get(subscriptionId) ?? [];
    this.#lists.delete(subscriptionId);
    this.#size -= list.length;
    return list;
  }

  /** Takes one line. */
  pick(line: Due): Lease | undefined {
    const list = this.#lists.get(line.subscriptionId) ?? [];
    const at = list.findIndex(({ ordinal, dueAt }) => ordinal === line.ordinal && dueAt === line.dueAt);
    if (at < 0) return undefined;
    this.#size--;
    if (list.length === 1) this.#lists.delete(line.subscriptionId);
    return list.splice(at, 1)[0];
  }

  /** Returns when the oldest line was due, epoch ms. */
  oldest(): number | undefined {
    let oldest: number | undefined;
    for (const [first] of this.#lists.values())
      if (first !== undefined && (oldest === undefined || first.dueAt < oldest)) oldest = first.dueAt;
    return oldest;
  }
}
