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
    if (held >= total) return;
    for (const tell of watchers) tell();
    watchers.clear();
  }

  return {
    busy,
    free: () => Math.max(0, total - held),
    given: () => given,
    take,
    give,
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
