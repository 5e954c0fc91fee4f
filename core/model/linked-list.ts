/**
 * Things that are under way, in the order in which they came. A `Set` would do, but V8 makes its table anew again and again
 * under those who come and go, each old one points at the next, and all of them keep what they last held until the next
 * major collection. What leaves a chain leaves nothing behind.
 */
export class LinkedList<T extends object> implements Iterable<T> {
  #first: Link<T> | undefined;
  #last: Link<T> | undefined;

  /** The one that is here for longest. */
  get first(): T | undefined {
    return this.#first?.of;
  }

  /** Puts it at the end. Returns what `remove` is to be given. */
  add(of: T): Link<T> {
    const link: Link<T> = { of, before: this.#last, behind: undefined };
    if (this.#last === undefined) this.#first = link;
    else this.#last.behind = link;
    this.#last = link;
    return link;
  }

  /** Takes one out that was added to this chain. Does nothing the second time. */
  remove(link: Link<T>): void {
    if (link.of === undefined) return;
    const { before, behind } = link;
    if (before === undefined) this.#first = behind;
    else before.behind = behind;
    if (behind === undefined) this.#last = before;
    else behind.before = before;
    link.of = link.before = link.behind = undefined;
  }

  /** Takes out the one that is here for longest. */
  takeFirst(): T | undefined {
    const of = this.first;
    if (this.#first !== undefined) this.remove(this.#first);
    return of;
  }

  /** Those that are here as it begins. */
  [Symbol.iterator](): Iterator<T> {
    const all: T[] = [];
    for (let link = this.#first; link?.of !== undefined; link = link.behind) all.push(link.of);
    return all.values();
  }
}

/** A place in a chain. */
export interface Link<T> {
  of: T | undefined;
  before: Link<T> | undefined;
  behind: Link<T> | undefined;
}
