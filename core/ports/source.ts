/** The source port: events enter here. A source acknowledges upstream only after `accept` has resolved. */
import type { Readiness, Routes } from "./plugin.ts";
import type { Durability } from "./storage.ts";

/** One event as a source passes it to `accept`, which validates it. */
export interface Publication {
  /** JSON text of one event: an object with `type`, `keyId`, `data` and optionally `id`, `createdAt`, `headers`. */
  readonly text: string;
  /** Its place in the batch, for error paths: `[17]`. Empty for a single event. */
  readonly path: string;
  /**
   * Values of fields that the text leaves out, so that a source need not rewrite a text that it passes on. A field of the
   * text counts first.
   */
  readonly defaults?: PublicationDefaults;
}

export interface PublicationDefaults {
  /** Same at each redelivery: it is how the relay recognises a repeat. */
  readonly id?: string;
  readonly type?: string;
  readonly keyId?: string;
}

export interface AcceptRequest {
  /** `batch` says whether the answer is a list. */
  readonly publications: readonly Publication[];
  /** Keys that the publisher may publish on; any other is NOT_FOUND. `undefined`: every key. */
  readonly keys?: readonly string[];
  /** A repeat of this whole request gets the answer of the first one, for 24 h, within `scope`. */
  readonly idempotency?: { readonly scope: string; readonly key: string; readonly digest: string };
  /** W3C trace context, passed on with the deliveries. */
  readonly traceparent?: string;
  readonly requestId?: string;
  /** Name of the source, for metrics and records: as `Plugin.name`, 1 to 100 letters, digits or `_ . @ / : -`. */
  readonly source: string;
  /** The moment that `SourceInfo.admit` returned for it: a publication that follows at once is not checked again. */
  readonly admittedAt?: number;
}

export interface Accepted {
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  /** ISO 8601, UTC, milliseconds. */
  readonly createdAt: string;
  /** How many deliveries the event has. */
  readonly deliveries: number;
  readonly duplicate: boolean;
}

/**
 * Resolves when all publications are stored, all or nothing, as durably as the storage promises.
 * One that is wrong refuses the whole batch, and `extras.errors` says which by its `path`: publish the others again without
 * it, or publish singly.
 *
 * @throws Problem: of these codes, the source does one thing or the other; `isLater` tells which.
 * - Mend (the same input never works): `INVALID_JSON`, `VALIDATION_FAILED`, `PAYLOAD_TOO_LARGE`, `NOT_FOUND` (a key that
 *   `keys` does not allow), `IDEMPOTENCY_MISMATCH` (the id was used for something else).
 * - Later (nothing is stored, or it is not known; offer it again, after `extras.retryAfter` seconds where given):
 *   `PROVIDER_BACKPRESSURE`, `STORAGE_UNAVAILABLE`, `STORAGE_FULL`, `SHUTTING_DOWN`, `INTERNAL_ERROR`, and whatever is thrown
 *   that is no Problem. What was stored after all is a duplicate the next time, by its `id` or by `idempotency`.
 */
export type Accept = (request: AcceptRequest) => Promise<readonly Accepted[]>;

export interface SourceInfo {
  /** The storage's durability at this moment: read it for each answer. */
  readonly durability: Durability;
  /**
   * Call it before reading a body, so that a busy relay refuses early. Pass the result to `accept`, which checks again
   * only after a slow body.
   * @returns the moment of the check, ms on the monotonic clock
   * @throws Problem PROVIDER_BACKPRESSURE
   */
  readonly admit?: () => number;
}

export interface Source extends Routes, Readiness {
  /**
   * Says what people see of it in the relay's status and on its page: plain values by their names, counted since the start. It
   * returns what is known already, and nothing secret.
   */
  figures?(): readonly Readonly<Record<string, string | number | undefined>>[];
  /**
   * Begins to accept events. The server serves `routes` from before `start` until after `stop`. It returns when the source
   * works or will by itself: a broker that is away is no reason to throw, but one for `readiness`.
   * @throws StartError and others, as `Plugin.setup`
   */
  start(accept: Accept, info: SourceInfo): Promise<void> | void;
  /**
   * Stops accepting events. Resolves when those under way are acknowledged or refused. May be called twice, and before
   * `start`. Sources are the first to stop: storage, transports and server still work. The relay waits a quarter of
   * `server.shutdownMs` for it, and then refuses what comes with `SHUTTING_DOWN`. There is no `dispose`: `stop` closes
   * everything.
   */
  stop(): Promise<void>;
}
