/** A set of whole numbers, kept as stretches without a gap: as many as there are gaps, however long they are. */
interface Stretches {
  /** How many stretches there are. */
  readonly size: number;
  /** Adds a number that is not in the set. */
  add(one: number): void;
  /** Takes the stretch that begins with the number out of the set. Returns its last number; `undefined`: none begins there. */
  take(first: number): number | undefined;
}

export function createStretches(): Stretches {
  /** The last number of each stretch by its first, and the other way round. */
  const lasts = new Map<number, number>();
  const firsts = new Map<number, number>();

  function take(first: number): number | undefined {
    const last = lasts.get(first);
    if (last === undefined) return undefined;
    lasts.delete(first);
    firsts.delete(last);
    return last;
  }

  return {
    get size() {
      return lasts.size;
    },
    add(one) {
      const first = firsts.get(one - 1) ?? one;
      take(first);
      const last = take(one + 1) ?? one;
      lasts.set(first, last);
      firsts.set(last, first);
    },
    take,
  };
}
