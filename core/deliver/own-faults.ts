/**
 * Counts our own faults that a delivery has met in a row. Such a fault gives the delivery back uncounted; without a
 * bound, a permanent one (a secret that cannot be opened, say) would never end.
 */
import { setNewest } from "../lib/bounded-map.ts";
import type { Attempt } from "../model/attempt.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Lease } from "../ports/storage.ts";
import type { SentAttempt } from "./send.ts";

/** Faults in a row after which an attempt is recorded. */
const MOST = 5;
/** Most deliveries remembered. Beyond it, the one without news for longest is forgotten and starts from zero. */
const HELD = 10_000;

export interface OwnFaults {
  /** Notes a fault. Returns true when an attempt must be recorded for it; the count then starts from zero. */
  note(subscriptionId: string, ordinal: string): boolean;
  /** Notes that an attempt of the delivery was made. */
  clear(subscriptionId: string, ordinal: string): void;
}

export function createOwnFaults(): OwnFaults {
  const counts = new Map<string, number>();
  return {
    note(subscriptionId, ordinal) {
      const key = `${subscriptionId}:${ordinal}`;
      const count = (counts.get(key) ?? 0) + 1;
      if (count >= MOST) {
        counts.delete(key);
        return true;
      }
      setNewest(counts, key, count, HELD);
      return false;
    },
    clear(subscriptionId, ordinal) {
      if (counts.size > 0) counts.delete(`${subscriptionId}:${ordinal}`);
    },
  };
}

/**
 * Builds the attempt that stands for requests which the relay could not make. Its detail is for the subscriber; the log
 * says more.
 */
function faultAttempt(turn: Pick<Attempt, "cycle" | "number">, clock: Pick<Clock, "now">): SentAttempt {
  const detail = "the relay could not make this request, five times in a row";
  return {
    reply: { kind: "error", error: "protocol", detail },
    attempt: { ...turn, startedAt: clock.now(), durationMs: 0, error: "protocol", detail },
  };
}

/**
 * Decides what follows a fault of our own: normally no attempt, but a recorded one when the fault occurs again and
 * again.
 * @throws the fault
 */
export function afterFault(
  error: unknown,
  { subscriptionId, ordinal }: Pick<Lease, "subscriptionId" | "ordinal">,
  turn: Pick<Attempt, "cycle" | "number">,
  signal: AbortSignal,
  { faults, clock, log }: { readonly faults: OwnFaults; readonly clock: Pick<Clock, "now">; readonly log: Log },
): SentAttempt {
  if (signal.aborted || !faults.note(subscriptionId, ordinal)) throw error;
  log.error("an attempt is recorded for faults of the relay itself", {
    subscriptionId,
    ordinal,
    error: String(error),
  });
  return faultAttempt(turn, clock);
}
