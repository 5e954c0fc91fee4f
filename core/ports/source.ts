/** The source port: where events come from. A source acknowledges upstream only when `accept` has resolved. */
import type { Route } from "./plugin.ts";
import type { Durability } from "./storage.ts";

/** One event as a source hands it in, validated by intake. */
export interface Publication {
  /** JSON text of one event: an object with `type`, `keyId`, `data` and optionally `id`, `createdAt`. */
  readonly text: string;
  /** Where it stood in its batch, for error paths: `[17]`. Empty for a single event. */
  readonly path: string;
}

export interface AcceptRequest {
  /** `batch` says whether the answer is a list. */
  readonly publications: readonly Publication[];
  /** Keys that the publisher may publish on; others are NOT_FOUND. `undefined`: every key. */
  readonly keys?: readonly string[];
  /** Repeats of this whole request are answered from the first one, for 24 h, within `scope`. */
  readonly idempotency?: { readonly scope: string; readonly key: string; readonly digest: string };
  /** W3C trace context to pass on with the deliveries. */
  readonly traceparent?: string;
  readonly requestId?: string;
  readonly source: string;
}

export interface Accepted {
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  /** ISO 8601, UTC, milliseconds. */
  readonly createdAt: string;
  /** How many deliveries were made of it. */
  readonly deliveries: number;
  readonly duplicate: boolean;
}

/**
 * Resolves when all of the publications are stored as durably as the storage can promise; all or nothing.
 * @throws Problem when anything about them is wrong, or nothing can be stored now
 */
export type Accept = (request: AcceptRequest) => Promise<readonly Accepted[]>;

export interface SourceInfo {
  /** As it is now: to be read for each answer. */
  readonly durability: Durability;
  /**
   * Asked before a body is read, so that a busy relay says so early. `accept` asks by itself as well.
   * @throws Problem PROVIDER_BACKPRESSURE
   */
  readonly admit?: () => void;
}

export interface Source {
  /** Begins to take events in. `routes` are served from before `start` until after `stop`. */
  start(accept: Accept, info: SourceInfo): Promise<void> | void;
  /** Takes nothing more in; resolves when what is under way has been acknowledged or refused. May be called twice. */
  stop(): Promise<void>;
  readonly routes?: readonly Route[];
}
