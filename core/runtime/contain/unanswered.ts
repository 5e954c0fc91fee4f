/**
 * Names the calls that a plug-in does not answer. They are waited for all the same: nobody knows what will come of them.
 * One timer serves all calls that are under way.
 */
import type { Clock } from "../../ports/clock.ts";

/** A call that has not been answered for so long is named, and again each time that it has passed once more, ms. */
const UNANSWERED_MS = 30_000;
const LOOK_MS = 10_000;

interface Unanswered {
  /** Watches until the answer comes. */
  watch(call: string, answer: Promise<unknown>): void;
  end(): void;
}

export function createUnanswered(
  clock: Pick<Clock, "now" | "monotonic" | "sleep">,
  tell: (call: string, error: Error) => void,
): Unanswered {
  const ended = new AbortController();
  const open = new Set<{ readonly call: string; since: number }>();
  let looking = false;

  async function look(): Promise<void> {
    looking = true;
    while (open.size > 0 && !ended.signal.aborted) {
      await clock.sleep(clock.now() + LOOK_MS, ended.signal).catch(() => undefined);
      const now = clock.monotonic();
      const late = new Set<string>();
      for (const one of open) {
        if (now - one.since < UNANSWERED_MS) continue;
        one.since = now;
        late.add(one.call);
      }
      for (const call of late) tell(call, new Error(`no answer for ${UNANSWERED_MS / 1_000} s`));
    }
    looking = false;
  }

  return {
    watch(call, answer) {
      const one = { call, since: clock.monotonic() };
      open.add(one);
      const over = (): void => void open.delete(one);
      answer.then(over, over);
      if (!looking) void look();
    },
    end: () => ended.abort(),
  };
}
