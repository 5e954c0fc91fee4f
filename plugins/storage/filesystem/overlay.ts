/** Holds what is committed and not in the files yet; reads look here first. `null` stands for a removal. */
import { SortedKeys } from "../embedded/sorted-keys.ts";

export type OverlayValue = string | null;

export class Overlay {
  readonly #values = new Map<string, OverlayValue>();
  readonly #keys = new SortedKeys();
  #bytes = 0;

  get size(): number {
    return this.#values.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Returns `undefined` when the files have the answer. */
  get(key: string): OverlayValue | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: OverlayValue): void {
    const before = this.#values.get(key);
    if (before === undefined) this.#keys.add(key);
    this.#bytes += weight(key, value) - (before === undefined ? 0 : weight(key, before));
    this.#values.set(key, value);
  }

  /** Returns what must be written to the files now. */
  snapshot(): ReadonlyMap<string, OverlayValue> {
    return new Map(this.#values);
  }

  /** Forgets what the files now contain, unless it was changed since the snapshot. */
  settle(written: ReadonlyMap<string, OverlayValue>): void {
    for (const [key, value] of written) {
      if (this.#values.get(key) !== value) continue;
      this.#values.delete(key);
      this.#keys.delete(key);
      this.#bytes -= weight(key, value);
    }
  }

  /**
   * Returns lines between `from` and `to` in the direction of reading, until `limit` values are among them. `edge`: the
   * last key read when it stopped early.
   */
  window(
    from: string,
    to: string | undefined,
    limit: number,
    reverse: boolean,
  ): { readonly lines: ReadonlyMap<string, OverlayValue>; readonly edge?: string } {
    const lines = new Map<string, OverlayValue>();
    let values = 0;
    for (const key of reverse ? this.#keys.downwards(from, to) : this.#keys.upwards(from, to)) {
      const value = this.#values.get(key) as OverlayValue;
      lines.set(key, value);
      if (value !== null && ++values === limit) return { lines, edge: key };
    }
    return { lines };
  }
}

const weight = (key: string, value: OverlayValue): number => key.length + (value?.length ?? 0) + 64;
