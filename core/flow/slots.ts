/** Slots: how many attempts may be on the wire, in all and per subscription. */

export interface Slots {
  /** How many of each subscription hold a slot now. */
  readonly busy: ReadonlyMap<string, number>;
  /** Free slots in all. */
  free(): number;
  /** How often one was given back so far. */
  given(): number;
  take(subscriptionId: string): void;
  give(subscriptionId: string): void;
  /**
   * The attempt is off the wire, and that it succeeded is not stored yet: gives the slot back at once, so that the wire
   * does not wait for the disk. False, and the slot is kept, while as many results as there are slots wait to be stored:
   * so few are sent again after a crash.
   */
  giveEarly(subscriptionId: string): boolean;
  /** The result of an attempt whose slot was given back early is stored, or never will be. */
  stored(subscriptionId: string): void;
  /** Waits for a slot; those who wait come before new claims. @throws the signal's reason */
  wait(subscriptionId: string, signal: AbortSignal): Promise<void>;
  /** Resolves when a slot is given back next, or `signal` aborts. */
  freed(signal: AbortSignal): Promise<void>;
}

interface Waiter {
  readonly subscriptionId: string;
  readonly go: () => void;
}

export function createSlots(total: number, perSubscription: number): Slots {
  const busy = new Map<string, number>();
  /** Of each subscription, how many results wait to be stored without a slot. */
  const storing = new Map<string, number>();
  let storingInAll = 0;
  const waiters = new Set<Waiter>();
  const watchers = new Set<() => void>();
  let held = 0;
  let given = 0;

  const fits = (id: string): boolean => held < total && (busy.get(id) ?? 0) < perSubscription;

  function take(id: string): void {
    held++;
    busy.set(id, (busy.get(id) ?? 0) + 1);
  }

  function give(id: string): void {
    held--;
    given++;
    const left = (busy.get(id) ?? 1) - 1;
    if (left > 0) busy.set(id, left);
    else busy.delete(id);
    for (const waiter of waiters) {
      if (!fits(waiter.subscriptionId)) continue;
      waiters.delete(waiter);
      take(waiter.subscriptionId);
      waiter.go();
      break;
    }
    if (held >= total || watchers.size === 0) return;
    for (const tell of watchers) tell();
    watchers.clear();
  }

  return {
    busy,
    free: () => Math.max(0, total - held),
    given: () => given,
    take,
    give,
    giveEarly(id) {
      const own = storing.get(id) ?? 0;
      if (own >= perSubscription || storingInAll >= total) return false;
      storing.set(id, own + 1);
      storingInAll++;
      give(id);
      return true;
    },
    stored(id) {
      storingInAll--;
      const left = (storing.get(id) ?? 1) - 1;
      if (left > 0) storing.set(id, left);
      else storing.delete(id);
    },
    async wait(subscriptionId, signal) {
      signal.throwIfAborted();
      if (fits(subscriptionId)) return take(subscriptionId);
      await new Promise<void>((resolve, reject) => {
        const stop = (): void => {
          waiters.delete(waiter);
          reject(signal.reason as Error);
        };
        const waiter: Waiter = {
          subscriptionId,
          go: () => {
            signal.removeEventListener("abort", stop);
            resolve();
          },
        };
        waiters.add(waiter);
        signal.addEventListener("abort", stop, { once: true });
      });
    },
    freed(signal) {
      if (signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const tell = (): void => {
          signal.removeEventListener("abort", stop);
          resolve();
        };
        const stop = (): void => {
          watchers.delete(tell);
          resolve();
        };
        watchers.add(tell);
        signal.addEventListener("abort", stop, { once: true });
      });
    },
  };
}
