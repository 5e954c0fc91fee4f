/**
 * Refuses publishing while there is still space in the storage to finish accepted events and to run retention. A full
 * disk also stops deliveries, retries and removals, so it would never become less full by itself.
 */
import { Problem } from "../model/problem.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";

/** How old a reading of the storage's space may be, ms. */
const LOOK_MS = 250;
/** Bytes that one pending delivery may still need until it has ended: its record, with the receivers' answers. */
const BYTES_PER_DELIVERY = 2_048;
/** The default reserve, and the largest share of a small storage that it takes. */
const RESERVE_BYTES = 128 * 1024 * 1024;
const RESERVE_SHARE = 0.1;
/** Bytes that one published byte may take on the disk for a while: in a log, in its place, and beside it. */
const BYTES_PER_BYTE = 4;
/** Publishing resumes once there is this many times the reserve. */
const REOPEN_AT = 1.1;
const RETRY_AFTER_S = 30;

interface StorageHeadroom {
  /**
   * Reads the space again when the last reading is old. Waits for it when events published since may have used up the
   * space. Never rejects.
   * @param bytes about to be published
   */
  look(bytes?: number): Promise<void> | undefined;
  /**
   * While publishing is refused, this reads the space again itself, so that publishing resumes although no event gets in.
   * @throws Problem STORAGE_FULL while too little space is left
   */
  admit(): void;
}

/** @param reserveBytes space kept for accepted events; default 128 MiB, or a tenth of a small disk; 0: no check */
export function createStorageHeadroom(deps: {
  readonly storage: Pick<Storage, "room"> & { readonly queue: Pick<Storage["queue"], "depth"> };
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Pick<Log, "info" | "warn">;
  readonly reserveBytes?: number;
}): StorageHeadroom {
  const { storage, clock, log } = deps;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | undefined;
  let full = false;
  /** Bytes above the reserve at the last reading, and how many of them may be used up since. */
  let margin = 0;
  let used = 0;

  async function measure(): Promise<void> {
    used = 0;
    try {
      const [room, depth] = await Promise.all([storage.room?.(), storage.queue.depth()]);
      if (room === undefined) {
        full = false;
        margin = Number.POSITIVE_INFINITY;
        return;
      }
      const { freeBytes, totalBytes } = room;
      const reserve = deps.reserveBytes ?? Math.min(RESERVE_BYTES, totalBytes * RESERVE_SHARE);
      const needed = reserve + Math.min(depth.waiting * BYTES_PER_DELIVERY, totalBytes * RESERVE_SHARE);
      const now = freeBytes < (full ? needed * REOPEN_AT : needed);
      if (now !== full) {
        const facts = { bytes: freeBytes, wanted: Math.round(needed) };
        if (now) log.warn("publishing is refused: the storage is nearly full", facts);
        else log.info("publishing resumes: the storage has space again", facts);
      }
      full = now;
      margin = freeBytes - needed;
    } catch {
      // A storage that does not know its space refuses commits by itself when it must.
      margin = Number.POSITIVE_INFINITY;
    } finally {
      lookedAt = clock.monotonic();
      looking = undefined;
    }
  }

  function look(bytes = 0): Promise<void> | undefined {
    if (storage.room === undefined || deps.reserveBytes === 0) return undefined;
    used += bytes * BYTES_PER_BYTE;
    const tight = !full && used > margin;
    if (!tight && clock.monotonic() - lookedAt < LOOK_MS) return undefined;
    looking ??= measure();
    return tight ? looking : undefined;
  }

  return {
    look,
    admit() {
      if (!full) return;
      void look();
      const detail = "The storage is nearly full. Its last space is kept for accepted events. Publish again later.";
      throw new Problem("STORAGE_FULL", detail, { retryAfter: RETRY_AFTER_S });
    },
  };
}
