/** Remembers which subscriptions are troubled: the last attempt for them failed, or took a second or longer. */
import type { Reply } from "../ports/transport.ts";
import { SLOW_MS } from "./receiver-speed.ts";

/** So many are remembered; beyond it those that have been so for longest are forgotten. */
const MOST = 100_000;

interface Troubled {
  has(subscriptionId: string): boolean;
  /** Notes an attempt and how long it took, ms. */
  note(subscriptionId: string, reply: Reply, durationMs: number): void;
}

export function createTroubled(most = MOST): Troubled {
  const ids = new Set<string>();
  return {
    has: (subscriptionId) => ids.has(subscriptionId),
    note(subscriptionId, reply, durationMs) {
      const fine = reply.kind === "response" && reply.status >= 200 && reply.status < 300 && durationMs < SLOW_MS;
      if (fine) return void (ids.size > 0 && ids.delete(subscriptionId));
      ids.add(subscriptionId);
      if (ids.size <= most) return;
      const [oldest] = ids;
      if (oldest !== undefined) ids.delete(oldest);
    },
  };
}
