/** Caches new events, so that a first attempt need not read them back. Losing it loses nothing. */
import { deliveryCount, type RelayEvent } from "../model/event.ts";
import { MOST_HEADER_CHARS } from "../model/header-names.ts";
import { EVENT } from "../model/schema.ts";
import { DamagedRecordError } from "../model/errors.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Storage } from "../ports/storage.ts";
import { readOrThrow } from "../records/damage.ts";

/** An event with its body as the bytes that are signed and sent. */
export interface CachedEvent {
  readonly event: RelayEvent;
  readonly body: Uint8Array;
  /** `EventCache.forgotten` when it was seen in storage, of one that is handed over. */
  readonly seen?: number;
}

export type EventCache = ReturnType<typeof createEventCache>;

/** Rough cost of an event besides its body. */
const PER_EVENT = 512;
const sizeOf = ({ event, body }: CachedEvent): number =>
  body.length + PER_EVENT + (event.headers === undefined ? 0 : MOST_HEADER_CHARS);
/** The part of the bytes that is kept when there are too many. */
const KEPT = 7 / 8;

/** @param maxBytes of cached bodies. @default 16 MiB */
export function createEventCache(storage: Pick<Storage, "getItem">, maxBytes = 16 * 1024 * 1024) {
  // By ordinal. Ordinals are unique over all keys except with forged clocks, so the key is compared too.
  const held = new Map<string, CachedEvent>();
  let bytes = 0;

  function hold(event: RelayEvent, body: Uint8Array = Buffer.from(event.body, "utf8")): void {
    // Nobody asks for it.
    if (deliveryCount(event) === 0) return;
    const loaded = { event, body };
    held.set(event.ordinal, loaded);
    bytes += sizeOf(loaded);
    if (bytes > maxBytes) shrink(event.ordinal);
  }

  /** Drops the oldest, some more than it must: each walk through a map steps over all that was deleted at its front. */
  function shrink(newest: string): void {
    for (const one of held.values()) {
      if (bytes <= maxBytes * KEPT || one.event.ordinal === newest) return;
      drop(one);
    }
  }

  function drop(one: CachedEvent): void {
    held.delete(one.event.ordinal);
    bytes -= sizeOf(one);
  }

  async function read(keyId: string, ordinal: string): Promise<CachedEvent> {
    const event = await readOrThrow(storage, EVENT, { keyId, ordinal });
    if (event === undefined) throw new DamagedRecordError("event", "missing", EVENT.key({ keyId, ordinal }));
    return { event, body: Buffer.from(event.body, "utf8") };
  }

  const cache = {
    put: hold,
    /** How often something was forgotten. */
    forgotten: 0,
    /**
     * @throws DamagedRecordError when the event is missing in storage, or its record is not as it was written;
     * StorageError
     */
    load(keyId: string, ordinal: string): MaybePromise<CachedEvent> {
      const known = held.get(ordinal);
      if (known?.event.keyId !== keyId) return read(keyId, ordinal);
      // Most events have one delivery with one attempt, and are not asked for again.
      if (deliveryCount(known.event) === 1) drop(known);
      return known;
    },
    /**
     * Looks whether an event that was loaded before is still there.
     * @returns `forgotten` as it was at the look
     * @throws DamagedRecordError, StorageError, as `load`
     */
    async look(keyId: string, ordinal: string): Promise<number> {
      const at = cache.forgotten;
      if (held.get(ordinal)?.event.keyId !== keyId) await read(keyId, ordinal);
      return at;
    },
    /** Drops an event that is no longer in storage; without its ordinal, all. */
    forget(ordinal?: string): void {
      cache.forgotten++;
      if (ordinal === undefined) {
        held.clear();
        bytes = 0;
        return;
      }
      const known = held.get(ordinal);
      if (known !== undefined) drop(known);
    },
  };
  return cache;
}
