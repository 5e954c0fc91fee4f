/** Keeps the connection of a transport: opened again for as long as the relay runs, and said when it is away. */
import { endsWithin } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import { keepConnected } from "../../brokers/keep-connected.ts";

interface Link {
  /** Whether something can be sent now. */
  readonly up: boolean;
  /** Closes it, within a second. */
  close(): Promise<void>;
}

interface LinkParts {
  readonly clock: Clock;
  readonly log: Log;
  /** For people: `NATS`. */
  readonly system: string;
  /** Name of the connection. */
  readonly name: string;
  /** Called when it is lost: what was under way is unknown. */
  readonly lost: () => void;
}

/** What a session says of its connection, as often as it changes. */
interface LinkState {
  up(): void;
  down(why: string): void;
}

/** Longest wait between attempts to connect, ms: subscriptions are paused for not much longer. */
const AGAIN_MS = 2_000;
const CLOSE_MS = 1_000;

/** @param session works until the signal aborts or the connection is lost for good; it leaves nothing open */
export function keepLink(
  { clock, log, system, name, lost }: LinkParts,
  session: (signal: AbortSignal, state: LinkState) => Promise<void>,
): Link {
  const end = new AbortController();
  let up = false;
  /** Why there is no connection: said once for the same reason in a row. */
  let said: string | undefined;
  function away(why: string | undefined): void {
    if (end.signal.aborted || why === said) return;
    if (why === undefined) log.info(`the connection to ${system} is there again`, { transport: name });
    else log.warn(`a connection to ${system} failed`, { transport: name, error: why });
    said = why;
  }
  function over(): void {
    up = false;
    lost();
  }
  const running = keepConnected(
    { stopping: end.signal, away, longestMs: AGAIN_MS },
    clock,
    async (signal, connected) => {
      const state: LinkState = {
        up() {
          up = !signal.aborted;
          connected();
        },
        down(why) {
          away(why);
          over();
        },
      };
      try {
        await session(signal, state);
      } finally {
        over();
      }
    },
  );
  return {
    get up() {
      return up;
    },
    async close() {
      end.abort();
      up = false;
      await endsWithin(clock, CLOSE_MS, running);
    },
  };
}
