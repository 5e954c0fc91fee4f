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

/** What a transform may know beside the event. */
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
  /** The longest run, in milliseconds. */
  readonly timeoutMs: number;
  /** Memory that the transforms of one worker may use, in MiB. */
  readonly memoryMb: number;
  /** Processes that run transforms, one at a time each. Each node has its own, started when they are needed. */
  readonly workers: number;
}

export const TRANSFORM_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
/** Longest body that a transform may make, in bytes: as long as an event may be. */
export const MAX_TRANSFORMED_BYTES = 256 * 1024;
/** Longest text that an attempt keeps of why a transform failed, in characters. */
export const MAX_TRANSFORM_DETAIL = 300;

/**
 * Turns the result of a transform into the body to send.
 * @param stringify `JSON.stringify` as it was before any code of the config ran
 * @throws TypeError when it is no object or list, or longer than a body may be; what the result's own `toJSON` throws
 */
export function transformedBody(result: unknown, stringify: (value: unknown) => string | undefined): string {
  if (typeof result !== "object" || result === null) throw new TypeError(`returned ${nameOf(result)}, not an object`);
  if (typeof (result as { then?: unknown }).then === "function")
    throw new TypeError("returned a promise: a transform returns its result at once");
  const text = stringify(result);
  if (text === undefined || !/^[{[]/.test(text)) throw new TypeError("returned what is no object in JSON");
  if (text === "{}" && !isPlain(result)) throw new TypeError(`returned ${nameOf(result)}, which JSON cannot express`);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_TRANSFORMED_BYTES)
    throw new TypeError(`returned ${bytes} bytes: a body has at most ${MAX_TRANSFORMED_BYTES}`);
  return text;
}

const nameOf = (value: unknown): string => {
  if (value === null || typeof value !== "object") return value === null ? "null" : typeof value;
  const { constructor } = value;
  return typeof constructor === "function" && constructor.name !== "" ? `a ${constructor.name}` : "an object";
};

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
};

/** Where secrets are masked later, so much is kept until then: one that is cut off would not be recognised. */
const UNMASKED_DETAIL = 4 * MAX_TRANSFORM_DETAIL;

/** One line of visible text about what went wrong, whatever was thrown. Not masked yet, so not as short as it is to be. */
export function detailOf(thrown: unknown): string {
  let text = "threw something that cannot be read";
  try {
    text = thrown instanceof Error ? `threw ${thrown.name}: ${thrown.message}` : `threw ${String(thrown)}`;
  } catch {
    // Its own toString throws.
  }
  return shortened(text, UNMASKED_DETAIL);
}

/** The text on one line, without control characters, shortened to what an attempt keeps, unless to something else. */
export const shortened = (text: string, most = MAX_TRANSFORM_DETAIL): string =>
  text
    .slice(0, 4 * most)
    .replaceAll(/[\s\p{Cc}\u2028\u2029]+/gu, " ")
    .slice(0, most);
