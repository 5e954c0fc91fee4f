/** Erases the events of a key that is being erased: settles up to which, and erases them in pages, fairly to deliveries. */
import { ordinalFloor, ordinalOf } from "../model/ids.ts";
import { eventKey, eventsOf } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { readEvent } from "../records/damage.ts";
import type { EventErasure } from "./erase-event.ts";

/** Events that are erased together. */
const EVENTS = 32;
/** How often an event that changed meanwhile is read again in one round. */
const TRIES = 16;
/** How far the clock of another node may be ahead, ms. */
const AHEAD_MS = 60_000;

interface ErasedPage {
  readonly erased: number;
  /** Those that changed all the time. */
  readonly left: number;
}

interface KeyEvents {
  /** See `settleUntil` below. */
  settle(keyId: string, signal: AbortSignal): Promise<string | undefined>;
  /** Erases all events up to an ordinal. */
  erase(keyId: string, until: string, signal: AbortSignal): Promise<ErasedPage>;
}

export function createKeyEvents(deps: {
  readonly storage: Pick<Storage, "getItem" | "range">;
  readonly events: Pick<EventErasure, "eraseRead">;
  readonly clock: Clock;
}): KeyEvents {
  const { storage, events, clock } = deps;

  /** @returns false when it changed all the time */
  async function eraseEvent(keyId: string, { key, value }: Entry): Promise<boolean> {
    let text: string | undefined = value;
    for (let tries = 0; tries < TRIES && text !== undefined; tries++) {
      if (await events.eraseRead({ ...readEvent(keyId, ordinalOf(key), text), text }, [])) return true;
      text = await storage.getItem(key);
    }
    return false;
  }

  /**
   * Returns up to where events are erased: the newest that there is, for all with a delivery to a deleted subscription are
   * older. Events from a clock that is ahead are erased first and do not count, or else what is published from now on
   * would be erased too.
   * @returns `undefined` when one of those changed all the time
   */
  async function settleUntil(keyId: string, signal: AbortSignal): Promise<string | undefined> {
    const now = clock.now();
    const ahead = eventKey(keyId, ordinalFloor(now + AHEAD_MS));
    const [youngest] = await storage.range(eventsOf(keyId), { reverse: true, limit: 1 });
    if (youngest !== undefined && youngest.key > ahead) {
      const { left } = await eraseEvents(keyId, ahead, ordinalOf(youngest.key), signal);
      if (left > 0) return undefined;
    }
    const [last] = await storage.range(eventsOf(keyId), { reverse: true, after: ahead, limit: 1 });
    return last === undefined ? ordinalFloor(now + 1) : ordinalOf(last.key);
  }

  /** Erases the events from one row up to an ordinal. */
  async function eraseEvents(
    keyId: string,
    from: string | undefined,
    until: string,
    signal: AbortSignal,
  ): Promise<ErasedPage> {
    let erased = 0;
    let left = 0;
    for (let after = from; ;) {
      signal.throwIfAborted();
      const began = clock.monotonic();
      const page: readonly Entry[] = await storage.range(eventsOf(keyId), { after, limit: EVENTS });
      const mine = page.filter(({ key }) => ordinalOf(key) <= until);
      const done = await Promise.all(mine.map((row) => eraseEvent(keyId, row)));
      erased += done.filter(Boolean).length;
      left += done.filter((one) => !one).length;
      if (mine.length < EVENTS) return { erased, left };
      after = mine.at(-1)?.key;
      // As long as it has worked, deliveries get the storage for themselves.
      const tookMs = clock.monotonic() - began;
      if (tookMs > 0) await clock.sleep(clock.now() + tookMs, signal);
    }
  }

  return { settle: settleUntil, erase: (keyId, until, signal) => eraseEvents(keyId, undefined, until, signal) };
}
