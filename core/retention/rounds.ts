/** Runs work that a crash may leave unfinished: at the start, every 30 s, and when it is woken, once at a time. */
import { every } from "../lib/every.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";

const AGAIN_MS = 30_000;

interface Rounds {
  /** Runs a round soon, also when one is under way that may have passed what is new. */
  wake(): void;
  start(): void;
  stop(): Promise<void>;
}

export function createRounds(deps: {
  readonly work: (signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}): Rounds {
  const { work, clock, log } = deps;
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  let working: Promise<void> | undefined;

  /** Never rejects. */
  function round(): Promise<void> {
    working ??= work(stopping.signal)
      .catch((error: unknown) => {
        if (!stopping.signal.aborted) log.warn("an erasure waits", { error: String(error) });
      })
      .finally(() => (working = undefined));
    return working;
  }

  return {
    wake() {
      if (stopping.signal.aborted) return;
      void (working === undefined ? round() : working.then(round));
    },
    start() {
      loop ??= round().then(() => every(clock, AGAIN_MS, round, stopping.signal));
    },
    async stop() {
      stopping.abort(new Error("stopping"));
      await Promise.all([loop, working]);
    },
  };
}
