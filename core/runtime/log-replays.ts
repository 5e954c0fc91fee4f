/** Counts the deliveries that a replay moves, by who asked for it, and those that are cancelled by hand. */
import type { PendingDeliveries } from "../replay/pending.ts";
import type { Replay } from "../replay/replay.ts";
import type { Metrics } from "../ports/plugin.ts";

export function countedReplay(replay: Replay, metrics: Metrics, by: "api" | "job"): Replay {
  const count = (moved: number): void => {
    if (moved > 0) metrics.count("deliveries_replayed", { by }, moved);
  };
  return {
    async event(keyId, eventId, options) {
      const moved = await replay.event(keyId, eventId, options);
      count(moved);
      return moved;
    },
    async failed(options) {
      const result = await replay.failed(options);
      count(result.replayed);
      return result;
    },
  };
}

export const countedPending = (pending: PendingDeliveries, metrics: Metrics): PendingDeliveries => ({
  tryNow: pending.tryNow,
  async cancel(...args) {
    await pending.cancel(...args);
    metrics.count("deliveries", { outcome: "cancelled" });
  },
});
