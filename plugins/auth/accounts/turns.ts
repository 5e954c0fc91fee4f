/** Shares the few places for scrypt, so that a flood of wrong logins from many addresses does not keep the right ones out. */
import { Problem } from "../../../core/model/problem.ts";

/** Each takes a thread of the pool that file access and name resolution need too. */
const AT_ONCE = 2;
/** Most that wait in one rank, and of one name in it. */
const WAITING = 40;
const WAITING_OF_ONE = 8;
/** One place in so many goes to whom would be last, so that nobody waits for ever. */
const SPARED = 4;

/** Who asks for a place. Ranks go one after the other, and the names of a rank in turn. */
export interface Asker {
  readonly rank: Rank;
  readonly name: string;
}
/** An address that has logged in before, an account that has, and all others, by address. */
export const RANKS = { knownAddress: 0, knownAccount: 1, stranger: 2 } as const;
type Rank = (typeof RANKS)[keyof typeof RANKS];

/** The waiting of one rank: each name in turn. */
class Line {
  readonly #byName = new Map<string, (() => void)[]>();
  #size = 0;

  join(name: string, enter: () => void): boolean {
    const own = this.#byName.get(name) ?? [];
    if (this.#size >= WAITING || own.length >= WAITING_OF_ONE) return false;
    own.push(enter);
    this.#byName.set(name, own);
    this.#size++;
    return true;
  }

  next(): (() => void) | undefined {
    const [first] = this.#byName;
    if (first === undefined) return undefined;
    const [name, own] = first;
    this.#byName.delete(name);
    const enter = own.shift();
    if (own.length > 0) this.#byName.set(name, own);
    this.#size--;
    return enter;
  }
}

type Turns = <T>(asker: Asker, work: () => Promise<T>) => Promise<T>;

/** Returns what runs works, few at once. It rejects with Problem PROVIDER_BACKPRESSURE where too many wait. */
export function createTurns(): Turns {
  const lines = Object.values(RANKS).map(() => new Line());
  const lastFirst = lines.toReversed();
  let inside = 0;
  let passed = 0;

  function next(): (() => void) | undefined {
    for (const line of ++passed % SPARED === 0 ? lastFirst : lines) {
      const enter = line.next();
      if (enter !== undefined) return enter;
    }
    return undefined;
  }

  return async ({ rank, name }, work) => {
    if (inside < AT_ONCE) inside++;
    else {
      const turn = Promise.withResolvers<void>();
      if (lines[rank]?.join(name, turn.resolve) !== true)
        throw new Problem("PROVIDER_BACKPRESSURE", "Too many logins at once. Try again soon.", { retryAfter: 5 });
      // The one that leaves passes its place on, so `inside` stays the same.
      await turn.promise;
    }
    try {
      return await work();
    } finally {
      const enter = next();
      if (enter === undefined) inside--;
      else enter();
    }
  };
}
