/** Rules that refuse publications, each about one thing that may run out, read from time to time. */
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";

export interface Rule {
  readonly code: "PROVIDER_BACKPRESSURE" | "STORAGE_FULL";
  /** A refused publisher reads this, and comes again after so many seconds. */
  readonly detail: string;
  readonly retryAfter: number;
  /** True while it refuses publications. */
  readonly closed: boolean;
  /**
   * Reads again what it judges by, where that is old; also while it is closed, so that publishing resumes although no
   * event gets in. Returns a promise where the decision has to wait for it. Never rejects.
   * @param chars about to be published
   */
  look?(chars: number): Promise<void> | undefined;
}

/** How old a reading may be, ms. */
export const LOOK_MS = 250;
/** A closed backlog opens again at this share of its limit. */
const REOPEN_AT = 0.8;
/** When publishing may be tried again, s. */
export const RETRY_AFTER_S = 2;
/** Publishing is refused while a commit has waited this long, and on a key while its first request has, ms. */
export const SLOW_MS = 2_000;

interface BacklogOptions {
  /** Most pending deliveries. */
  readonly most: number;
  readonly detail: string;
  readonly count: () => Promise<number>;
  /** How old a reading may be that is far from the limit, ms. */
  readonly staleMs: number;
  /** It reads again only after this many times the duration of a reading, so that counting does not become the work. */
  readonly share: number;
}

/** Refuses while too many deliveries are pending: those of the last reading, and what this node has added since. */
export class Backlog implements Rule {
  readonly code = "PROVIDER_BACKPRESSURE";
  readonly retryAfter = RETRY_AFTER_S;
  readonly detail: string;
  closed = false;
  reading: Promise<void> | undefined;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #options: BacklogOptions;
  #pending = 0;
  /** Monotonic ms: when it may be read again, and when it must be. */
  #again = Number.NEGATIVE_INFINITY;
  #stale = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonic">, options: BacklogOptions) {
    this.#clock = clock;
    this.#options = options;
    this.detail = options.detail;
  }

  look(): Promise<void> | undefined {
    if (this.reading !== undefined) return this.reading;
    const now = this.#clock.monotonic();
    const matters = this.closed || this.#pending > this.#options.most || now >= this.#stale;
    return matters && now >= this.#again ? (this.reading = this.#read(now)) : undefined;
  }

  added(count: number): void {
    this.#pending += count;
    if (!this.closed) this.#judge();
  }

  async #read(began: number): Promise<void> {
    const { staleMs, share, count } = this.#options;
    try {
      this.#pending = await count();
      this.#judge();
    } catch {
      // The commit itself will show whether the storage can take anything.
    } finally {
      const now = this.#clock.monotonic();
      this.#again = now + Math.max(LOOK_MS, (now - began) * share);
      this.#stale = now + staleMs;
      this.reading = undefined;
    }
  }

  #judge(): void {
    const { most } = this.#options;
    this.closed = this.#pending > (this.closed ? most * REOPEN_AT : most);
  }
}

/** Bytes that one pending delivery may still need until it has ended: its record, with the receivers' answers. */
const BYTES_PER_DELIVERY = 2_048;
/** The default reserve, and the largest share of a small storage that it takes. */
const RESERVE_BYTES = 128 * 1024 * 1024;
const RESERVE_SHARE = 0.1;
/** Bytes that one published byte may take on the disk for a while: in a log, in its place, and beside it. */
const BYTES_PER_BYTE = 4;
/** Publishing resumes once there is this many times the reserve. */
const ROOM_REOPEN_AT = 1.1;

/** The facts by which the space of the storage is judged. */
export interface RoomDeps {
  readonly storage: Pick<Storage, "room"> & { readonly queue: Pick<Storage["queue"], "depth"> };
  readonly clock: Clock;
  readonly log: Log;
  /** Bytes kept for accepted events; 0: no check. @default 128 MiB, or a tenth of a small disk */
  readonly reserveBytes?: number;
}

/**
 * Refuses while there is still space to finish accepted events and to run retention: a full disk also stops deliveries,
 * retries and removals, so it would never become less full by itself. A look is waited for when what was published since
 * the last one may have used up the space.
 * @returns undefined where nothing is to be checked
 */
export function roomOf({ storage, clock, log, reserveBytes }: RoomDeps): Rule | undefined {
  if (storage.room === undefined || reserveBytes === 0) return undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | undefined;
  let closed = false;
  /** Bytes above the reserve at the last reading, and how many of them may be used up since. */
  let margin = Number.NEGATIVE_INFINITY;
  let used = 0;

  async function measure(): Promise<void> {
    used = 0;
    try {
      const [room, { waiting }] = await Promise.all([storage.room?.(), storage.queue.depth()]);
      const { freeBytes, totalBytes } = room ?? { freeBytes: Number.POSITIVE_INFINITY, totalBytes: 0 };
      const reserve = reserveBytes ?? Math.min(RESERVE_BYTES, totalBytes * RESERVE_SHARE);
      const needed = reserve + Math.min(waiting * BYTES_PER_DELIVERY, totalBytes * RESERVE_SHARE);
      const full = freeBytes < (closed ? needed * ROOM_REOPEN_AT : needed);
      const facts = { bytes: freeBytes, wanted: Math.round(needed) };
      if (full && !closed) log.warn("publishing is refused: the storage is nearly full", facts);
      if (closed && !full) log.info("publishing resumes: the storage has space again", facts);
      closed = full;
      margin = freeBytes - needed;
    } catch {
      // A storage that does not know its space refuses commits by itself when it must.
      margin = Number.POSITIVE_INFINITY;
    } finally {
      lookedAt = clock.monotonic();
      looking = undefined;
    }
  }

  return {
    code: "STORAGE_FULL",
    detail: "The storage is nearly full. Its last space is kept for accepted events. Publish again later.",
    retryAfter: 30,
    get closed() {
      return closed;
    },
    look(chars) {
      used += chars * BYTES_PER_BYTE;
      const tight = !closed && used > margin;
      if (!tight && clock.monotonic() - lookedAt < LOOK_MS) return undefined;
      looking ??= measure();
      return tight ? looking : undefined;
    },
  };
}
