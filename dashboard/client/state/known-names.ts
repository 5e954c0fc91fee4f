/** Loads the names of subscriptions where a view shows some that are not known yet, and again when they change. */
import { useLayoutEffect } from "preact/hooks";
import { MOST_REQUESTS, spent } from "./api.ts";
import { knownOf, loadStats, nameOf, useKnown } from "./api-keys.ts";
import { useCalm, useLive } from "./load.ts";

/** When to ask for names that could not be loaded with the view, ms. */
const AGAIN_MS = 2_000;
/** At most once in this time what is known is read again because others have changed it, ms. */
const CHANGED_MS = 2_000;

type Given = ReadonlyMap<string, string | undefined>;

/**
 * @param all whether the view offers every subscription of the key, whatever ids it shows
 * @param given names that came with the ids: there is nothing to load for those
 * @returns what people call a subscription: its id, until its name is loaded
 */
export function useNames(
  keyId: string,
  ids: readonly (string | undefined)[],
  all = false,
  given?: Given,
): (id: string) => string {
  const names = useKnown(keyId);
  const unknown =
    (all && knownOf(keyId) === undefined) || ids.some((id) => id !== undefined && !names.has(id) && !given?.has(id));
  // In turn with the reading of the view, which comes first.
  useLayoutEffect(() => {
    if (!unknown) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let left = false;
    const load = (): void => void loadStats(keyId, "24h").catch(later);
    const later = (): void => {
      if (!left) timer = setTimeout(load, AGAIN_MS);
    };
    // Where that exceeds the view's requests, a little later; ids are shown meanwhile.
    if (spent.count < MOST_REQUESTS) load();
    else later();
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [unknown, keyId]);
  const changed = useCalm(() => void loadStats(keyId, "24h").catch(() => undefined), CHANGED_MS);
  useLive(({ event }) => {
    if ((event === "subscription" || event === "again") && knownOf(keyId) !== undefined) changed();
  });
  return (id) => {
    const one = names.get(id);
    return one === undefined ? (given?.get(id) ?? id) : nameOf(one);
  };
}
