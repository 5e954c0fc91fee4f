/**
 * Reads a request's body into memory, within its own limit and the budget of all bodies, for each caller. It reads Node's request: h3's
 * readers know a limit for one body only, and cancelling theirs closes the connection before the refusal is seen.
 */
import type { IncomingMessage } from "node:http";
import { Tally } from "../../lib/tally.ts";
import { MAX_BATCH_BYTES } from "../../model/event.ts";
import { Problem } from "../../model/problem.ts";
import type { ContentCoding } from "../../ports/route.ts";
import { INFLATER_BYTES, inflaterOf, notInflated } from "./inflate.ts";

/** The share of the budget that one caller may always hold, if there is room at all. */
const SHARE = 1 / 8;
/** The share of the free part that one caller may hold: a single caller gets a quarter of the whole. */
const SHARE_OF_FREE = 1 / 3;

interface BodyBudget {
  /** True when there is room for so many bytes more of these callers. Each of them must have it. */
  fits(callers: readonly string[], bytes: number): boolean;
  /** Holds so many bytes more. False, with nothing held, when there is no room. */
  hold(callers: readonly string[], bytes: number): boolean;
  release(callers: readonly string[], bytes: number): void;
  /** The bytes that are held now. */
  held(): number;
}

/**
 * A caller may hold a third of what is still free, an eighth of the whole, or one body of the longest, whichever is most: so
 * uploads that stall keep nobody else out, and while there is much room a caller is not held to an eighth.
 * @param longest bytes of the longest body
 */
export function createBodyBudget(maxBytes: number, longest: number): BodyBudget {
  const always = Math.max(maxBytes * SHARE, longest);
  let held = 0;
  const byCaller = new Tally();

  function fits(callers: readonly string[], bytes: number): boolean {
    const free = maxBytes - held;
    if (bytes > free) return false;
    const most = Math.max(always, free * SHARE_OF_FREE);
    return callers.every((caller) => byCaller.of(caller) + bytes <= most);
  }

  return {
    fits,
    hold(callers, bytes) {
      // Nearly every event counts for no caller.
      if (callers.length === 0 ? bytes > maxBytes - held : !fits(callers, bytes)) return false;
      held += bytes;
      for (const caller of callers) byCaller.add(caller, bytes);
      return true;
    },
    release(callers, bytes) {
      held -= bytes;
      for (const caller of callers) byCaller.add(caller, -bytes);
    },
    held: () => held,
  };
}

/** Bodies of management requests and logins are small, and many of them come before anyone is authenticated. */
export const SMALL_BODY = 64 * 1024;
/** While its last block is filled, a body holds more than its length. */
const LARGE_BODY = MAX_BATCH_BYTES + SMALL_BODY;
const SMALL_BYTES = 8 * 1024 * 1024;

/** The budgets of one server. Small bodies, and those of senders yet unknown, cannot take the room of publishers. */
export interface BodyBudgets {
  readonly large: BodyBudget;
  readonly unknown: BodyBudget;
  readonly small: BodyBudget;
}

/** @param maxBytes of bodies that are published */
export const createBodyBudgets = (maxBytes: number): BodyBudgets => ({
  large: createBodyBudget(maxBytes, LARGE_BODY),
  unknown: createBodyBudget(maxBytes, LARGE_BODY),
  small: createBodyBudget(SMALL_BYTES, 2 * SMALL_BODY),
});

/** Chunks below this size are copied together: each one that is held costs some hundred bytes more. */
const SMALL_CHUNK = 4_096;
const BLOCK = 16_384;
/** `Retry-After` when there is no room, seconds. The server cuts stalled uploads off after 30 s. */
const RETRY_AFTER_S = 5;

const NOBODY: readonly string[] = [];
/** A body up to this length that comes in one chunk counts for no caller: nearly every event does. */
const AT_ONCE = 65_536;

/** The bytes that one request holds of a budget, from its first byte until it is answered. */
export class HeldBody {
  readonly #budget: BodyBudget;
  readonly #who: () => readonly string[];
  #callers: readonly string[] | undefined;
  #bytes = 0;
  /** True when the body was refused for want of room: the rest of it is not read. */
  refused = false;

  /** @param who the callers that it counts for; called only for a body that is long or comes in pieces */
  constructor(budget: BodyBudget, who: () => readonly string[]) {
    this.#budget = budget;
    this.#who = who;
  }

  /** True when a body of that announced length may begin: one that may come at once is judged when it comes. */
  fits(bytes: number): boolean {
    return this.#budget.fits((this.#callers ??= this.#who()), bytes);
  }

  /** @param all true for the whole body */
  hold(bytes: number, all: boolean): boolean {
    this.#callers ??= all && bytes <= AT_ONCE ? NOBODY : this.#who();
    const held = this.#budget.hold(this.#callers, bytes);
    if (held) this.#bytes += bytes;
    return held;
  }

  /** May be called twice. */
  release(): void {
    if (this.#bytes > 0) this.#budget.release(this.#callers ?? NOBODY, this.#bytes);
    this.#bytes = 0;
  }
}

/** Collects the chunks of a body that comes in several: long ones as they are, short ones in blocks. */
class Pieces {
  readonly #pieces: Buffer[];
  #block: Buffer | undefined;
  #used = 0;

  constructor(first: Buffer) {
    this.#pieces = [first];
  }

  /** Adds a chunk when `hold` allows the bytes that are held additionally with it. */
  add(chunk: Buffer, hold: (bytes: number) => boolean): boolean {
    const fits = this.#block !== undefined && this.#used + chunk.length <= BLOCK;
    const long = chunk.length >= SMALL_CHUNK;
    if (!hold(long ? chunk.length : fits ? 0 : BLOCK)) return false;
    if (long || !fits) this.#close();
    if (long) this.#pieces.push(chunk);
    else this.#used += chunk.copy((this.#block ??= Buffer.allocUnsafeSlow(BLOCK)), this.#used);
    return true;
  }

  whole(): Buffer {
    this.#close();
    return Buffer.concat(this.#pieces);
  }

  #close(): void {
    if (this.#block !== undefined) this.#pieces.push(this.#block.subarray(0, this.#used));
    this.#block = undefined;
    this.#used = 0;
  }
}

/** Most bytes of a body that is not wanted which are read and thrown away. */
export const DRAINED = 16 * 1024 * 1024;

const CLOSE = { Connection: "close" } as const;
export const tooLarge = (maxBytes: number): Problem =>
  new Problem("PAYLOAD_TOO_LARGE", `Send at most ${maxBytes} bytes.`, { headers: CLOSE });
/** Returns a body that was read already, if it is no longer than this. @throws Problem PAYLOAD_TOO_LARGE */
export function atMost(bytes: Uint8Array, maxBytes: number): Uint8Array {
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}
/** The length that the body is said to have; 0 where it comes in chunks. */
export const announcedBy = (req: IncomingMessage): number => Number(req.headers["content-length"] ?? 0);
/** Returns true for a request that brings a body along. */
export const hasBody = (req: IncomingMessage): boolean =>
  req.headers["transfer-encoding"] !== undefined || announcedBy(req) > 0;
const noRoom = (): Problem =>
  new Problem("PROVIDER_BACKPRESSURE", "Too many bodies are under way. Send this one again later.", {
    retryAfter: RETRY_AFTER_S,
    headers: CLOSE,
  });

/**
 * Reads the whole body. A body with an announced length that is too long is refused before it is read. Bytes count as they
 * arrive, so a stalled upload holds what it has sent, and no more.
 * @param coding what the body is inflated from, as it arrives: then all bounds count what comes out
 * @throws Problem PAYLOAD_TOO_LARGE, PROVIDER_BACKPRESSURE, INVALID_JSON for what cannot be inflated; Gone when the client
 * went away
 */
export function readBody(
  req: IncomingMessage,
  maxBytes: number,
  held: HeldBody,
  coding?: ContentCoding,
): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const announced = announcedBy(req);
  let size = 0;
  let first: Buffer | undefined;
  let pieces: Pieces | undefined;
  let refused = false;
  let inflater: ReturnType<typeof inflaterOf> | undefined;
  const refuse = (problem: Error): void => {
    refused = true;
    first = pieces = undefined;
    if (inflater !== undefined) req.unpipe(inflater.destroy());
    held.release();
    reject(problem);
  };
  const refuseRoom = (): void => {
    held.refused = true;
    // At once: until the answer is put together, more of it would be read for nothing.
    req.socket?.pause();
    refuse(noRoom());
  };
  if (announced > maxBytes) reject(tooLarge(maxBytes));
  else if (announced > AT_ONCE && !held.fits(announced)) refuseRoom();
  else if (req.destroyed && !req.readableEnded) reject(new Gone());
  else if (coding !== undefined && !held.hold(INFLATER_BYTES, false)) refuseRoom();
  else {
    if (coding !== undefined) req.pipe((inflater = inflaterOf(coding)));
    const bytes = inflater ?? req;
    bytes.on("data", (chunk: Buffer) => {
      if (refused) return;
      size += chunk.length;
      if (size > maxBytes) return refuse(tooLarge(maxBytes));
      if (first === undefined) {
        if (!held.hold(chunk.length, inflater === undefined && chunk.length === announced)) return refuseRoom();
        first = chunk;
      } else if (!(pieces ??= new Pieces(first)).add(chunk, (bytes) => held.hold(bytes, false))) refuseRoom();
    });
    const over = (): void =>
      bytes.readableEnded ? resolve(pieces?.whole() ?? first ?? Buffer.alloc(0)) : reject(new Gone());
    if (coding !== undefined && inflater !== undefined) {
      inflater.on("end", over);
      inflater.on("error", () => refuse(notInflated(coding)));
      // What has come in whole may still be coming out.
      req.on("close", () => void (req.readableEnded || refuse(new Gone())));
      return promise;
    }
    // Each comes once, and a promise settles once: `once` would only make an object of each.
    req.on("end", over);
    req.on("error", over);
    req.on("close", over);
  }
  return promise;
}

/** Thrown when the client goes away before its request is complete: there is nobody to answer. */
export class Gone extends Error {
  constructor() {
    super("the client went away");
    this.name = "Gone";
  }
}
