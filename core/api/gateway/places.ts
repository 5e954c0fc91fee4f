/** Counts the places at the upstream, shares them out over addresses and keys, and lets requests in with their bodies. */
import type { Readable } from "node:stream";
import { Tally } from "../../lib/tally.ts";
import { Problem } from "../../model/problem.ts";
import { hasBody, HeldBody, readBody } from "../http/body.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import type { Call } from "../http/call.ts";
import { openUpload } from "./upload.ts";

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
