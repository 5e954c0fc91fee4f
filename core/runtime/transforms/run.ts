/** Runs transforms, inside the process that has loaded them: one call, one JSON text or one reason. */
import { Script } from "node:vm";
import { detailOf, shortened, transformedBody, type Transform } from "../../model/transform.ts";
import type { RunAnswer, RunRequest } from "./messages.ts";

/** Taken before any code of a config has run. */
const { parse, stringify } = JSON;

/**
 * A run that is stopped from inside has lost its relay: the relay itself ends the process long before. Without this, an
 * endless run would outlive a relay that was killed.
 */
const SPARE_MS = 5_000;

/**
 * What the values of one event can reach. Frozen, so that hostile data cannot change through a careless transform what
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
