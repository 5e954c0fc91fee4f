/**
 * Counts our own faults that a delivery has met in a row. Such a fault gives the delivery back uncounted; without a
 * bound, a permanent one (a secret that cannot be opened, say) would never end.
 */
import { countUp } from "../lib/bounded-map.ts";
import type { Lease } from "../ports/storage.ts";
import type { Run } from "./run.ts";
import type { SentAttempt } from "./send.ts";

/** Faults in a row after which an attempt is recorded. */
const MOST = 5;
/** Most deliveries remembered. Beyond it, the one without news for longest is forgotten and starts from zero. */
const HELD = 10_000;
const DETAIL = "the relay could not make this request, five times in a row";

/** Names a delivery among those that this node remembers. */
export const nameOf = ({ subscriptionId, ordinal }: Pick<Lease, "subscriptionId" | "ordinal">): string =>
  `${subscriptionId} ${ordinal}`;

/** Notes a fault. Returns true when an attempt must be recorded for it; the count then starts from zero. */
export function noteFault(faults: Map<string, number>, lease: Pick<Lease, "subscriptionId" | "ordinal">): boolean {
  const name = nameOf(lease);
  return countUp(faults, name, HELD) >= MOST && faults.delete(name);
}

/**
 * Decides what follows a fault of our own: normally no attempt, but a recorded one when the fault occurs again and
 * again. Its detail is for the subscriber; the log says more.
 * @throws the fault
 */
export function afterFault(error: unknown, { lease, turn, signal, deps }: Run): SentAttempt {
  if (signal.aborted || !noteFault(deps.faults, lease)) throw error;
  const { subscriptionId, ordinal } = lease;
  deps.log.error("an attempt is recorded for faults of the relay itself", {
    subscriptionId,
    ordinal,
    error: String(error),
  });
  const attempt = { ...turn, startedAt: deps.clock.now(), durationMs: 0, error: "protocol", detail: DETAIL } as const;
  return { reply: { kind: "error", error: "protocol", detail: DETAIL }, attempt };
}
