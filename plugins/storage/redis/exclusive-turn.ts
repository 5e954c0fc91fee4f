/**
 * Redis does nothing else while it carries out a large commit. So it is sent when the other calls of this node have been
 * answered, and those that come meanwhile wait here, and not for an answer, whose time would run out.
 */
export interface ExclusiveTurn {
  /** Resolves when no large call is with Redis, or its time is over. `undefined`: there is none. */
  readonly shut: Promise<void> | undefined;
  /** A call that is not large begins, and ends. */
  begin(): void;
  end(): void;
  /** Does this when no other call is under way, and lets none begin meanwhile. One at a time, in turn. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

export function createExclusiveTurn(): ExclusiveTurn {
  let under = 0;
  let shut: Promise<void> | undefined;
  let quiet: (() => void) | undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function turn<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<void>();
    shut = promise;
    try {
      if (under > 0) await new Promise<void>((none) => (quiet = none));
      return await work();
    } finally {
      shut = undefined;
      resolve();
      // Those who waited go before the next large one.
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
      quiet?.();
      quiet = undefined;
    },
    alone(work) {
      const own = last.then(() => turn(work));
      last = own.catch(() => {});
      return own;
    },
  };
}
