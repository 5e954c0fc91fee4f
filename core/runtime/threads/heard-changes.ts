/**
 * Judges whether a thread may store new events by what it has heard of changes to subscriptions. Each change makes an epoch.
 * A thread must have heard of those of its events' own keys: changes of other keys, however many, refuse it nothing.
 */
import { setNewest } from "../../lib/bounded-map.ts";
import { EVENT, SUBSCRIPTION } from "../../model/schema.ts";
import type { Change } from "../../ports/storage.ts";

/** Keys of which the last change is remembered. A thread that knows of nothing since an older one counts as outdated. */
const KEYS = 10_000;

interface HeardChanges {
  /** Of the last change. */
  readonly epoch: number;
  /** Notes stored keys that have changed. A bare prefix: any subscription may have changed. */
  changed(keys: readonly string[]): void;
  /** @param knows the epoch of the last change that the thread has heard of */
  outdated(knows: number, changes: readonly Change[]): boolean;
}

export function createHeardChanges(most = KEYS): HeardChanges {
  /** API key → epoch of its last change. */
  const last = new Map<string, number>();
  /** The newest epoch of a change that is not remembered by its key. */
  let unnamed = 0;
  let epoch = 0;

  function note(apiKey: string): void {
    if (apiKey === "") return void (unnamed = epoch);
    if (last.size >= most && !last.has(apiKey)) unnamed = Math.max(unnamed, last.values().next().value ?? 0);
    setNewest(last, apiKey, epoch, most);
  }

  return {
    get epoch() {
      return epoch;
    },
    changed(keys) {
      const own = keys.filter((key) => SUBSCRIPTION.has(key));
      if (own.length === 0) return;
      epoch++;
      for (const key of own) note(SUBSCRIPTION.id(key).keyId);
    },
    outdated(knows, changes) {
      if (knows >= epoch) return false;
      if (knows < unnamed) return true;
      return changes.some(({ key }) => EVENT.has(key) && (last.get(EVENT.id(key).keyId) ?? 0) > knows);
    },
  };
}
