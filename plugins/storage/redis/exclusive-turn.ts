/**
 * Gives large commits a turn of their own, because Redis does nothing else while it runs one. A large commit is sent
 * when this node's other calls have been answered; calls that come meanwhile wait here, where their time-out does not
 * run.
 */
export interface ExclusiveTurn {
  /** Resolves when no large call is at Redis, or its time is over. `undefined`: there is none. */
  readonly shut: Promise<void> | undefined;
  /** Marks the start of a call that is not large; `end` its end. */
  begin(): void;
  end(): void;
  /** Runs this when no other call is under way, and lets none begin meanwhile. One at a time, in turn. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

export function createExclusiveTurn(): ExclusiveTurn {
  let under = 0;
  let shut: Promise<void> | undefined;
  let idle: (() => void) | undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function turn<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<void>();
    shut = promise;
    try {
      if (under > 0) await new Promise<void>((none) => (idle = none));
      return await work();
    } finally {
      shut = undefined;
      resolve();
      // Waiting calls go before the next large one.
      await new Promise((turned) => void setImmediate(turned));
    }
  }

  return {
    get shut() {
      return shut;
    },
    begin: () => void under++,
    end() {
      if (--under > 0) return;
      idle?.();
      idle = undefined;
    },
    alone(work) {
      const own = last.then(() => turn(work));
      last = own.catch(() => {});
      return own;
    },
  };
}
