/**
 * A transform: a function of the config that makes the body of a delivery from its event. A subscription names one. What
 * it makes is sent and signed in place of the event; the stored event stays as it was published.
 */

/** The event as a transform gets it: what a delivery without a transform carries. */
export interface TransformEvent<Data = unknown> {
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** As published, read by `JSON.parse`. */
  readonly data: Data;
}

/** Tells a transform what it may know beside the event. */
export interface TransformContext {
  readonly subscriptionId: string;
}

/**
 * Returns the body to send: an object or a list that JSON can express. It may change the event that it gets, which is
 * its own copy. A throw, or anything else that it returns, is a failed attempt.
 */
export type Transform = (event: TransformEvent<never>, context: TransformContext) => unknown;

/** Bounds of one run, which the config sets. */
export interface TransformLimits {
  /** The longest run of a transform, in milliseconds. @default 1000 */
  readonly timeoutMs: number;
  /** Memory of transforms in each process, in MiB. @default 64 */
  readonly memoryMb: number;
  /** Processes that run transforms; slow ones never hold all. @default 2 */
  readonly workers: number;
}

export const TRANSFORM_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
/** Longest body that a transform may make, in bytes: as long as an event may be. */
export const MAX_TRANSFORMED_BYTES = 256 * 1024;
/** Longest text that an attempt keeps of why a transform failed, in characters. */
export const MAX_TRANSFORM_DETAIL = 300;
