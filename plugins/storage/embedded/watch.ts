/** Notifies watchers in this process of changed subscriptions and control keys. */
import { CONTROL, SUBSCRIPTION } from "../../../core/model/schema.ts";
import type { Change } from "../../../core/ports/storage.ts";

/** Returns the changed keys that watchers get; undefined when there are none, as nearly always. */
export function watchedKeys(changes: readonly Change[]): readonly string[] | undefined {
  let keys: string[] | undefined;
  for (const { op, key } of changes) {
    if (op !== "check" && (SUBSCRIPTION.has(key) || CONTROL.has(key))) (keys ??= []).push(key);
  }
  return keys;
}

export class Watchers {
  readonly #listeners = new Set<(keys: readonly string[]) => void>();

  /** @returns a function that stops it */
  watch(changed: (keys: readonly string[]) => void): () => void {
    // A new function for each call, so that the same listener may watch twice.
    const listener = (keys: readonly string[]): void => changed(keys);
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  notify(keys: readonly string[]): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(keys);
      } catch (error) {
        // The commit has happened, even if a listener fails.
        process.emitWarning(error instanceof Error ? error : String(error));
      }
    }
  }
}
