/** Notifies watchers in this process of changed subscriptions and control keys. */
import { CONTROL, SUBSCRIPTION } from "../../../core/model/schema.ts";
import type { Change } from "../../../core/ports/storage.ts";

export function watchers() {
  const listeners = new Set<(keys: readonly string[]) => void>();
  return {
    watch(changed: (keys: readonly string[]) => void): () => void {
      // A new function for each call, so that the same listener may watch twice.
      const listener = (keys: readonly string[]): void => changed(keys);
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    /** Returns the changed keys that watchers get; undefined when there are none, as nearly always. */
    watched(changes: readonly Change[]): readonly string[] | undefined {
      let keys: string[] | undefined;
      for (const { op, key } of changes) {
        if (op !== "check" && (SUBSCRIPTION.has(key) || CONTROL.has(key))) (keys ??= []).push(key);
      }
      return keys;
    },
    notify(keys: readonly string[]): void {
      for (const listener of [...listeners]) {
        try {
          listener(keys);
        } catch (error) {
          // The commit has happened, even if a listener fails.
          process.emitWarning(error instanceof Error ? error : String(error));
        }
      }
    },
  };
}
