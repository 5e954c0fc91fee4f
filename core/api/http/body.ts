/**
 * Reads a request's body into memory, within its own limit and the budget of all bodies. It reads Node's request: h3's
 * readers know a limit for one body only, and cancelling theirs closes the connection before the refusal is seen.
 */
import type { IncomingMessage } from "node:http";
import { Problem } from "../../model/problem.ts";
import type { BodyBudget } from "./body-budget.ts";

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

  /** True when a body of that announced length may begin. */
  fits(bytes: number): boolean {
    return this.#budget.fits(bytes > AT_ONCE ? (this.#callers ??= this.#who()) : NOBODY, bytes);
  }

  /** @param all whether this is the whole body */
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

/** Collects a body: long chunks as they are, short ones in blocks. */
class Pieces {
  #size = 0;
  #pieces: Buffer[] = [];
  #block: Buffer | undefined;
  #used = 0;

  get size(): number {
    return this.#size;
  }

  /** The bytes that are held additionally with this chunk. */
  cost(chunk: Buffer): number {
    if (this.#size === 0 || chunk.length >= SMALL_CHUNK) return chunk.length;
    return this.#block !== undefined && this.#used + chunk.length <= BLOCK ? 0 : BLOCK;
  }

  add(chunk: Buffer): void {
    const first = this.#size === 0;
    this.#size += chunk.length;
    if (first || chunk.length >= SMALL_CHUNK) {
      this.#close();
      this.#pieces.push(chunk);
      return;
    }
    if (this.#block !== undefined && this.#used + chunk.length > BLOCK) this.#close();
    this.#block ??= Buffer.allocUnsafeSlow(BLOCK);
    this.#used += chunk.copy(this.#block, this.#used);
  }

  whole(): Buffer {
    this.#close();
    const [first] = this.#pieces;
    return first !== undefined && this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces, this.#size);
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
const tooLarge = (maxBytes: number): Problem =>
  new Problem("PAYLOAD_TOO_LARGE", `Send at most ${maxBytes} bytes.`, { headers: CLOSE });
/** Returns a body that was read already, if it is no longer than this. @throws Problem PAYLOAD_TOO_LARGE */
export function atMost(bytes: Uint8Array, maxBytes: number): Uint8Array {
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}
/** The length that the body is said to have; 0 where it comes in chunks. */
const announcedBy = (req: IncomingMessage): number => Number(req.headers["content-length"] ?? 0);
/** Whether a request brings a body along. */
export const hasBody = (req: IncomingMessage): boolean =>
  req.headers["transfer-encoding"] !== undefined || announcedBy(req) > 0;
/** Why the body is refused before it is read; undefined when it is not. */
export const overlong = (req: IncomingMessage, maxBytes: number): Problem | undefined =>
  announcedBy(req) > maxBytes ? tooLarge(maxBytes) : undefined;
const noRoom = (): Problem =>
  new Problem("PROVIDER_BACKPRESSURE", "Too many bodies are under way. Send this one again later.", {
    retryAfter: RETRY_AFTER_S,
    headers: CLOSE,
  });

/**
 * Reads the whole body. A body with an announced length that is too long is refused before it is read. Bytes count as they
 * arrive, so a stalled upload holds what it has sent, and no more.
 * @throws Problem PAYLOAD_TOO_LARGE, PROVIDER_BACKPRESSURE; Gone when the client went away
 */
export function readBody(req: IncomingMessage, maxBytes: number, held: HeldBody): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const announced = announcedBy(req);
    if (announced > maxBytes) return reject(tooLarge(maxBytes));
    let pieces: Pieces | undefined = new Pieces();
    const refuse = (problem: Problem): void => {
      pieces = undefined;
      held.release();
      reject(problem);
    };
    const refuseRoom = (): void => {
      held.refused = true;
      // At once: until the answer is put together, more of it would be read for nothing.
      req.socket?.pause();
      refuse(noRoom());
    };
    if (!held.fits(announced)) return refuseRoom();
    if (req.destroyed && !req.readableEnded) return reject(new Gone());
    req.on("data", (chunk: Buffer) => {
      if (pieces === undefined) return;
      if (pieces.size + chunk.length > maxBytes) refuse(tooLarge(maxBytes));
      else if (held.hold(pieces.cost(chunk), chunk.length === announced)) pieces.add(chunk);
      else refuseRoom();
    });
    // Each comes once, and a promise settles once: `once` would only make an object of each.
    req.on("end", () => resolve(pieces?.whole() ?? Buffer.alloc(0)));
    const gone = (): void => {
      if (!req.readableEnded) reject(new Gone());
    };
    req.on("error", gone);
    req.on("close", gone);
  });
}

/** Thrown when the client goes away before its request is complete: there is nobody to answer. */
export class Gone extends Error {
  constructor() {
    super("the client went away");
    this.name = "Gone";
  }
}
