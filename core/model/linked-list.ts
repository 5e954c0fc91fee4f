/**
 * A doubly linked list in insertion order, from which members are removed anywhere. A `Set` would do, but V8 rebuilds
 * its table again and again when members come and go, each old table points at the next, and all of them keep their
 * last members alive until the next major collection. A removed link leaves nothing behind.
 */
export class LinkedList<T extends object> implements Iterable<T> {
  #first: Link<T> | undefined;
  #last: Link<T> | undefined;

  /** The oldest member. */
  get first(): T | undefined {
    return this.#first?.of;
  }

  /** Adds it at the end. Returns the link that `remove` takes. */
  add(of: T): Link<T> {
    const link: Link<T> = { of, before: this.#last, behind: undefined };
    if (this.#last === undefined) this.#first = link;
    else this.#last.behind = link;
    this.#last = link;
    return link;
  }

  /** Removes a link of this list. Does nothing the second time. */
  remove(link: Link<T>): void {
    if (link.of === undefined) return;
    const { before, behind } = link;
    if (before === undefined) this.#first = behind;
    else before.behind = behind;
    if (behind === undefined) this.#last = before;
    else behind.before = before;
    link.of = link.before = link.behind = undefined;
  }

  /** Removes and returns the oldest member. */
  takeFirst(): T | undefined {
    const of = this.first;
    if (this.#first !== undefined) this.remove(this.#first);
    return of;
  }

  /** Iterates over the members that are there when it begins. */
  [Symbol.iterator](): Iterator<T> {
    const all: T[] = [];
    for (let link = this.#first; link?.of !== undefined; link = link.behind) all.push(link.of);
    return all.values();
  }
}

/** A place in the list. */
export interface Link<T> {
  of: T | undefined;
  before: Link<T> | undefined;
  behind: Link<T> | undefined;
}
