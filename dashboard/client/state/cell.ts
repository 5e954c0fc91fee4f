/** A value that components observe: they are rendered again when it changes. */
import { useEffect, useState } from "preact/hooks";

interface ReactiveCell<T> {
  readonly now: T;
  set(next: T): void;
  watch(changed: (next: T) => void): () => void;
}

export function cell<T>(first: T): ReactiveCell<T> {
  let now = first;
  const watchers = new Set<(next: T) => void>();
  return {
    get now() {
      return now;
    },
    set(next) {
      if (Object.is(now, next)) return;
      now = next;
      for (const one of [...watchers]) one(next);
    },
    watch(changed) {
      watchers.add(changed);
      return () => watchers.delete(changed);
    },
  };
}

export function useCell<T>(one: ReactiveCell<T>): T {
  // A value may be a function, which `useState` would call.
  const [now, set] = useState(() => one.now);
  useEffect(() => {
    set(() => one.now);
    return one.watch((next) => set(() => next));
  }, [one]);
  return now;
}
