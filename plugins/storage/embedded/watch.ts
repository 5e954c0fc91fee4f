/** Who wants to hear of changed subscriptions and control keys, within one process. */
import type { Change } from "../../../core/ports/storage.ts";

export interface Watchers {
  readonly watch: (changed: (keys: readonly string[]) => void) => () => void;
  /** Keys of these changes that watchers are told of; undefined when there is none, as nearly always. */
  readonly watched: (changes: readonly Change[]) => readonly string[] | undefined;
  readonly tell: (keys: readonly string[]) => void;
}

const isWatched = (key: string): boolean => key.startsWith("subscription:") || key.startsWith("control:");

export function watchers(): Watchers {
  const listeners = new Set<(keys: readonly string[]) => void>();
  return {
    watch(changed) {
      // A function of its own for each call, so that the same listener may watch twice.
      const listener = (keys: readonly string[]): void => changed(keys);
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    watched(changes) {
      let keys: string[] | undefined;
      for (const { op, key } of changes) {
        if (op !== "check" && isWatched(key)) (keys ??= []).push(key);
      }
      return keys;
    },
    tell(keys) {
      for (const listener of [...listeners]) {
        try {
          listener(keys);
        } catch (error) {
          // The commit has happened, whatever a listener makes of it.
          process.emitWarning(error instanceof Error ? error : String(error));
        }
      }
    },
  };
}
