/** Runs transforms, inside the process that has loaded them: one call, one JSON text or one reason. */
import { Script } from "node:vm";
import { MAX_TRANSFORM_DETAIL, MAX_TRANSFORMED_BYTES, type Transform } from "../../model/transform.ts";
import type { RunAnswer, RunRequest } from "./worker.ts";

/** Taken before any code of a config has run. */
const { parse, stringify } = JSON;

/** A run that stops itself has lost its relay: an endless one would outlive it. */
const SPARE_MS = 5_000;

/**
 * Objects that the values of one event can reach. Frozen, so that hostile data cannot change through a careless transform what
 * the next event meets. Not the errors: their subclasses set a name.
 */
const SHARED = [Object, Array, Function, String, Number, Boolean, RegExp, Date, Map, Set, Promise, Symbol, BigInt];

/** Call it once the config is loaded: code that runs while it loads may still extend these. */
export function freezeShared(): void {
  for (const shared of SHARED) {
    Object.freeze(shared.prototype);
    Object.freeze(shared);
  }
  for (const shared of [JSON, Math, Reflect]) Object.freeze(shared);
}

/** @param timeoutMs how long the relay waits for a run */
export function createRunner(
  transforms: Readonly<Record<string, Transform>>,
  timeoutMs: number,
): (request: RunRequest) => RunAnswer {
  const slot = Symbol.for("relaybox.run");
  const shared = globalThis as unknown as Record<symbol, (() => unknown) | undefined>;
  const script = new Script('globalThis[Symbol.for("relaybox.run")]()');
  const options = { timeout: timeoutMs + SPARE_MS };

  function call(work: () => unknown): unknown {
    shared[slot] = work;
    try {
      return script.runInThisContext(options);
    } finally {
      shared[slot] = undefined;
    }
  }

  return ({ run, name, body, context }) => {
    const transform = Object.hasOwn(transforms, name) ? transforms[name] : undefined;
    if (typeof transform !== "function") return { run, failed: "is not in the config any more", threw: false };
    let returned = false;
    try {
      const text = call(() => {
        const result = transform(parse(body) as never, context);
        returned = true;
        return transformedBody(result, stringify);
      });
      return { run, text: text as string };
    } catch (error) {
      // A TypeError of ours says what is wrong with the result; a result's own toJSON may throw anything.
      const refused = returned && error instanceof TypeError && error.message.startsWith("returned ");
      return { run, failed: refused ? shortened(error.message) : detailOf(error), threw: !refused };
    }
  };
}

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
