/** A set that is gone through in turn: each call goes on where the one before stopped, and begins again at the end. */
export class Rotation<T> {
  readonly #all = new Set<T>();
  /** Goes on while values are added and deleted. */
  #turn = this.#all.values();

  get size(): number {
    return this.#all.size;
  }

  add(value: T): void {
    this.#all.add(value);
  }

  delete(value: T): void {
    this.#all.delete(value);
  }

  /** Returns the next value; `undefined` when there is none. */
  next(): T | undefined {
    const { value, done } = this.#turn.next();
    if (done !== true) return value;
    this.#turn = this.#all.values();
    return this.#turn.next().value;
  }
}
