/** Counts the places at the upstream, shares them out over addresses and keys, and lets requests in with their bodies. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { Tally } from "../../lib/tally.ts";
import { Problem } from "../../model/problem.ts";
import { announcedBy, createBodyBudget, DRAINED, Gone, hasBody, HeldBody, readBody } from "../http/body.ts";
import type { Call } from "../http/call.ts";

export const BODY_BYTES = 1_048_576;
/** Most bytes that bodies hold while they wait for a place at the upstream. */
const WAITING_BYTES = 33_554_432;
/** The share of the places that one caller may have. */
const SHARE = 1 / 8;
/** The share for requests whose body is still on its way, over all callers. The rest is for requests that are complete. */
const UPLOADS = 1 / 2;
const FULL = "The upstream has as many requests as it may have, in all or of you; come back later.";

interface Place {
  /** Call it when the body has arrived: the place then counts as an upload no more. */
  uploaded(): void;
  /** May be called twice. */
  leave(): void;
}

export interface Admitted {
  readonly place: Place;
  readonly body?: Readable | Uint8Array;
  /** The memory that a body holds which was read first. */
  readonly held?: HeldBody;
}

export class Places {
  readonly #most: number;
  readonly #mostOfOne: number;
  readonly #mostUploads: number;
  readonly #byCaller = new Tally();
  readonly #waiting = createBodyBudget(WAITING_BYTES, 2 * BODY_BYTES);
  #taken = 0;
  #uploads = 0;

  /** @param concurrency requests at the upstream at once */
  constructor(concurrency: number) {
    this.#most = concurrency;
    this.#mostOfOne = Math.max(1, Math.floor(concurrency * SHARE));
    this.#mostUploads = Math.max(1, Math.floor(concurrency * UPLOADS));
  }

  /**
   * Takes a place for a request. Only a few places are for requests whose body is still on its way. Without one of those, the
   * request reads its body first and takes a place then, so that a stalled upload blocks no place.
   * @param end is aborted when the body is too long, or its client leaves
   * @throws Problem PROVIDER_BACKPRESSURE without a place, for one of the callers or in all
   */
  async admit({ req }: Call, callers: readonly string[], end: AbortController): Promise<Admitted> {
    if (!hasBody(req)) return { place: this.#takeOrRefuse(callers) };
    const place = this.#take(callers, true);
    if (place !== undefined)
      return { place, body: openUpload(req, BODY_BYTES, (error) => end.abort(error), place.uploaded) };
    const held = new HeldBody(this.#waiting, () => callers);
    try {
      const body = await readBody(req, BODY_BYTES, held);
      return { place: this.#takeOrRefuse(callers), body, held };
    } catch (error) {
      held.release();
      throw error;
    }
  }

  #takeOrRefuse(callers: readonly string[]): Place {
    const place = this.#take(callers, false);
    if (place === undefined) throw new Problem("PROVIDER_BACKPRESSURE", FULL, { retryAfter: 1 });
    return place;
  }

  #take(callers: readonly string[], uploading: boolean): Place | undefined {
    if (this.#taken >= this.#most || (uploading && this.#uploads >= this.#mostUploads)) return undefined;
    if (callers.some((caller) => this.#byCaller.of(caller) >= this.#mostOfOne)) return undefined;
    const count = (by: 1 | -1): void => {
      this.#taken += by;
      for (const caller of callers) this.#byCaller.add(caller, by);
    };
    count(1);
    if (uploading) this.#uploads++;
    let [upload, taken] = [uploading, true];
    const uploaded = (): void => {
      if (upload) this.#uploads--;
      upload = false;
    };
    const leave = (): void => {
      uploaded();
      if (taken) count(-1);
      taken = false;
    };
    return { uploaded, leave };
  }
}

/**
 * Refuses a body that is announced as too long, or where none belongs. Transfer codings beyond chunked have been refused with
 * the head already.
 * @throws Problem
 */
export function checkBody(req: IncomingMessage, maxBytes: number): void {
  if (hasBody(req) && (req.method === "GET" || req.method === "HEAD")) {
    // Servers that expect none take it for the next request on the connection.
    const errors = [{ path: "", message: "must not be there" }];
    throw new Problem("VALIDATION_FAILED", `Send a ${req.method} without a body.`, { errors, ...CLOSE });
  }
  if (announcedBy(req) > maxBytes) throw tooLarge(maxBytes);
}

const CLOSE = { headers: { connection: "close" } } as const;
const tooLarge = (maxBytes: number): Problem =>
  new Problem("PAYLOAD_TOO_LARGE", `Send at most ${maxBytes} bytes.`, CLOSE);

/**
 * Passes a body on as a stream, no faster than the upstream takes it: destroying it leaves the client's connection alone, and what still comes is dropped.
 * @param failed is called once, with Problem PAYLOAD_TOO_LARGE, or Gone when the client left before the end
 * @param whole called when all of it has come
 */
function openUpload(
  req: IncomingMessage,
  maxBytes: number,
  failed: (error: Error) => void,
  whole: () => void,
): Readable {
  let size = 0;
  const upload = new Readable({ read: () => void req.resume() });
  // The caller that destroys the stream knows the reason.
  upload.on("error", () => undefined);
  upload.once("close", () => req.resume());
  const fail = (error: Error): void => {
    if (upload.destroyed) return;
    upload.destroy();
    failed(error);
  };
  req.on("data", (chunk: Buffer) => {
    size += chunk.length;
    if (size > maxBytes) {
      fail(tooLarge(maxBytes));
      if (size > DRAINED) req.destroy();
    } else if (!upload.destroyed && !upload.push(chunk)) req.pause();
  });
  req.once("end", () => {
    whole();
    if (!upload.destroyed) upload.push(null);
  });
  req.once("error", () => fail(new Gone()));
  req.once("close", () => {
    if (!req.complete) fail(new Gone());
  });
  return upload;
}
