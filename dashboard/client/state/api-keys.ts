/** Holds the API key in view, the list of keys, and the subscriptions of a key by their names. */
import { useLayoutEffect } from "preact/hooks";
import { ask, MOST_REQUESTS, path, spent } from "./api.ts";
import { cell, useCell } from "./cell.ts";
import { hostOf } from "./format.ts";
import { useCalm, useLive } from "./load.ts";
import type { Glance, Range, Stats, Subscription } from "../shapes.ts";
import { isPortal } from "./page-facts.ts";
import { token } from "./token.ts";

/** Keys in use; `undefined` until they are loaded. */
export const keys = cell<readonly string[] | undefined>(undefined);

/** The last key in view: not a secret, and gone with the tab. Somebody else may have looked at it, who had other keys. */
const LAST = "relay.key";
export function lastKey(): string | undefined {
  const owned = token.now?.keys ?? [];
  if (isPortal) return owned[0];
  const last = sessionStorage.getItem(LAST) ?? "";
  return isKeyId(last) && (owned === "*" || owned.includes(last)) ? last : undefined;
}
export function rememberKey(keyId: string): void {
  if (!isPortal) sessionStorage.setItem(LAST, keyId);
}

export const MOST_KEYS = 200;

/** Reads the keys in use; a token that names its keys needs no request. @throws ApiRefusal */
export async function loadKeys(): Promise<readonly string[]> {
  const owned = token.now?.keys ?? [];
  if (owned !== "*") {
    keys.set(owned);
    return owned;
  }
  const { left: before } = turns;
  const { data } = await ask<readonly { readonly id: string }[]>("GET", `/api-keys?limit=${MOST_KEYS}`);
  const found = data.map(({ id }) => id);
  if (before === turns.left) keys.set(found);
  return found;
}

export const isKeyId = (text: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_:-]{0,63}$/.test(text);

token.watch((now) => {
  if (now !== undefined) return;
  turns.left++;
  turns.answered = ++turns.begun;
  keys.set(undefined);
  loaded.set(undefined);
});

type Known = ReadonlyMap<string, Glance>;
/** The subscriptions that were read last, and whose they are: the views of a key do not show those of another. */
const loaded = cell<{ readonly keyId: string; readonly all: Known } | undefined>(undefined);
const NONE: Known = new Map();
/** Readings of statistics that were begun, the number of the newest that was answered, and how often somebody has left. */
const turns = { begun: 0, answered: 0, left: 0 };

/** The last known subscriptions of a key; `undefined` until they are loaded. */
export const knownOf = (keyId: string | undefined): Known | undefined =>
  loaded.now?.keyId === keyId ? loaded.now?.all : undefined;

/** The same for a view, so that an id can be shown by its URL. Empty until they are loaded. */
export function useKnown(keyId: string | undefined): Known {
  useCell(loaded);
  return knownOf(keyId) ?? NONE;
}

/**
 * Loads the statistics of a key and the state of its subscriptions, in one request. What a later one has read stays known,
 * of this key or the next: an answer may be late, also for somebody who has left.
 * @param recent how many of the newest attempts of each subscription are listed
 * @throws ApiRefusal
 */
export async function loadStats(
  keyId: string,
  range: Range,
  subscriptionId?: string,
  signal?: AbortSignal,
  recent?: string,
): Promise<Stats> {
  const turn = ++turns.begun;
  const route = path("/api-keys/{}/stats", [keyId], { range, subscriptionId, recent });
  const { data } = await ask<Stats>("GET", route, { signal });
  if (turn < turns.answered) return data;
  turns.answered = turn;
  loaded.set({ keyId, all: new Map(data.subscriptions.map((one) => [one.id, one])) });
  return data;
}

/** Returns what people call a subscription. */
export const nameOf = (one: Subscription): string => one.description ?? hostOf(one.url);

/** When to ask for names that could not be loaded with the view, ms. */
const AGAIN_MS = 2_000;
/** At most once in this time what is known is read again because others have changed it, ms. */
const CHANGED_MS = 2_000;

type Given = ReadonlyMap<string, string | undefined>;

/**
 * Loads the names of subscriptions where a view shows some that are not known yet, and again when they change.
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
  const changed = useCalm(() => void loadStats(keyId, "24h").catch(() => undefined));
  useLive(({ event }) => {
    if ((event === "subscription" || event === "again") && knownOf(keyId) !== undefined) changed(CHANGED_MS);
  });
  return (id) => {
    const one = names.get(id);
    return one === undefined ? (given?.get(id) ?? id) : nameOf(one);
  };
}
