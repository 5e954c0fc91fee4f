/** Maps with a bound on their size. */

/** Sets a value as the newest of the map, and drops the oldest when there are more than `most`. */
export function setNewest<K, V>(map: Map<K, V>, key: K, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > most) map.delete(map.keys().next().value as K);
}

/** Counts one more under the key, as the newest of the map, and drops the oldest when there are more than `most`. */
export function countUp<K>(map: Map<K, number>, key: K, most: number): number {
  const count = (map.get(key) ?? 0) + 1;
  setNewest(map, key, count, most);
  return count;
}

/** Holds about `most` values. Beyond that it drops idle values, the oldest first. */
export class BoundedMap<T> {
  readonly #values = new Map<string, T>();
  readonly #most: number;
  readonly #idle: (value: T) => boolean;

  constructor(most: number, idle: (value: T) => boolean) {
    this.#most = most;
    this.#idle = idle;
  }

  get size(): number {
    return this.#values.size;
  }

  get(name: string): T | undefined {
    return this.#values.get(name);
  }

  add(name: string, value: T): T {
    // A few looks each time are enough, because every new value brings some more.
    for (let looks = 0; looks < 8 && this.#values.size >= this.#most; looks++) {
      const [oldest, old] = this.#values.entries().next().value as [string, T];
      this.#values.delete(oldest);
      if (!this.#idle(old)) this.#values.set(oldest, old);
    }
    this.#values.set(name, value);
    return value;
  }
}
