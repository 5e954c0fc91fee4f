/** The wall around an observer: it sees what has happened, frozen, and neither stops nor changes any of it. */
import { traceparentOf } from "../../model/traceparent.ts";
import type { Observer, SendAttempt } from "../../ports/observer.ts";
import type { Accept } from "../../ports/source.ts";
import { checkPort, wallOf, type Wall, type Walls } from "./wall.ts";
import type { PluginName } from "./incidents.ts";

/** @throws StartError 78 when it is no observer */
export function containObserver(observer: Observer, plugin: PluginName, walls: Walls): Observer {
  if (typeof observer !== "object" || observer === null) checkPort({}, plugin, ["observer"]);
  const wall = wallOf(plugin, walls);
  const { tell } = wall;
  return {
    ...(observer.accepted && {
      accepted: (event) => tell("accepted", () => observer.accepted?.(frozen(event))),
    }),
    ...(observer.attempted && {
      attempted: (sub, delivery, attempt, outcome, type) =>
        tell("attempted", () =>
          observer.attempted?.(frozen(sub), frozen(delivery), frozen(attempt), frozen(outcome), type),
        ),
    }),
    ...(observer.refused && {
      refused: (code, keyId) => tell("refused", () => observer.refused?.(code, keyId)),
    }),
    ...(observer.wrapAccept && {
      wrapAccept: (next: Accept) =>
        wrapped<Parameters<Accept>, Awaited<ReturnType<Accept>>>(wall, "wrapAccept", next, {
          wrap: (inner) => observer.wrapAccept?.(inner),
          shown: ([request]) => [frozen(request)],
          taken: ([request], [passed]) => {
            const traceparent = traceparentOf(passed.traceparent);
            return [traceparent === undefined ? request : { ...request, traceparent }];
          },
        }),
    }),
    ...(observer.wrapSend && {
      wrapSend: (next: SendAttempt) =>
        wrapped<Parameters<SendAttempt>, Awaited<ReturnType<SendAttempt>>>(wall, "wrapSend", next, {
          wrap: (inner) => observer.wrapSend?.(inner),
          shown: ([sub, { event, body }, turn, signal]) => [
            frozen(sub),
            // Copied when it is read: the bytes are shared with the other deliveries of the event.
            {
              event: frozen(event),
              get body() {
                return new Uint8Array(body);
              },
            },
            frozen(turn),
            signal,
          ],
          taken: (own, [, passed]) => {
            const [sub, loaded, turn, signal] = own;
            const traceparent = traceparentOf(passed.event.traceparent);
            if (traceparent === undefined || traceparent === loaded.event.traceparent) return own;
            return [sub, { ...loaded, event: { ...loaded.event, traceparent } }, turn, signal];
          },
        }),
    }),
    dispose: async () => {
      await wall.inside(() => observer.dispose?.());
    },
  };
}

interface Wrapping<Args extends readonly unknown[], Result> {
  readonly wrap: (inner: (...args: Args) => Promise<Result>) => unknown;
  /** What the wrapper is given. */
  readonly shown: (args: Args) => Args;
  /** What is passed on, of what the relay passed in and what the wrapper passed on. */
  readonly taken: (own: Args, passed: Args) => Args;
}

/**
 * `next` within an observer's wrapper. The step is made once, with the wrapper's traceparent, whatever the wrapper does; and
 * its result is the step's own.
 */
function wrapped<Args extends readonly unknown[], Result>(
  { note, inside, outside }: Wall,
  call: string,
  next: (...args: Args) => Promise<Result>,
  { wrap, shown, taken }: Wrapping<Args, Result>,
): (...args: Args) => Promise<Result> {
  interface Step {
    readonly args: Args;
    made?: Promise<Result>;
  }
  /** The step whose wrapper is running now: it calls `next` before it returns. */
  let running: Step | undefined;

  function once(...passed: Args): Promise<Result> {
    const step = running;
    if (step === undefined) return Promise.reject(new Error("next is to be called once, before the wrapper returns"));
    return (step.made ??= outside(() => next(...taken(step.args, passed))));
  }

  let wrapper: unknown;
  try {
    wrapper = inside(() => wrap(once));
    if (typeof wrapper !== "function") throw new Error("it returned no function");
  } catch (error) {
    note(call, error);
    return next;
  }

  return (...args) => {
    const before = running;
    const step: Step = (running = { args });
    let answered: unknown;
    try {
      answered = inside(() => (wrapper as (...args: Args) => unknown)(...shown(args)));
    } catch (error) {
      note(call, error);
    } finally {
      running = before;
    }
    if (step.made === undefined) {
      note(call, new Error("it returned without calling next"));
      step.made = next(...args);
    }
    const { made } = step;
    Promise.resolve(answered).catch((error: unknown) =>
      made.then(
        () => note(call, error),
        (own: unknown) => void (own === error || note(call, error)),
      ),
    );
    return made;
  };
}

/** Freezes a value of the relay's own, once and all the way down. Records are small and plain. */
function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value) || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const inner of Object.values(value)) frozen(inner);
  return value;
}
