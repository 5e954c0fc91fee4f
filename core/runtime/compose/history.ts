/** Composes what reads, replays and removes stored events. */
import { createAttemptSearch } from "../../history/attempt-search.ts";
import { createAttemptHistory } from "../../history/attempts.ts";
import { createHistory } from "../../history/events.ts";
import { ordinals } from "../../model/ids.ts";
import { auditChange } from "../../records/audit-trail.ts";
import { ALL_EVENTS } from "../../subscriptions/cluster-messages.ts";
import { createPendingDeliveries, type PendingDeliveries } from "../../replay/pending.ts";
import { createReplay, type Replay } from "../../replay/replay.ts";
import { createReplayJob } from "../../replay/replay-job.ts";
import { createEndTurns } from "../../retention/end-turns.ts";
import { createEventErasure } from "../../retention/erase-event.ts";
import { createKeyErasure } from "../../retention/erase-key.ts";
import { createWideRemoval, type WideRemoval } from "../../retention/remove-wide.ts";
import { createRetention } from "../../retention/retention.ts";
import { createDeliveryReader } from "../../records/delivery-view.ts";
import { createWideStatus } from "../../records/wide-status.ts";
import type { Container } from "./container.ts";
import type { DeliveryPath } from "./parts.ts";
import type { Metrics } from "../../ports/plugin.ts";

const RECORDS = ["storage", "clock", "subscriptionCache", "recipients"] as const;
const recordsOf = ({
  storage,
  clock,
  subscriptionCache,
  recipients,
}: Pick<DeliveryPath, (typeof RECORDS)[number]>) => ({ storage, clock, subscriptionCache, recipients });

function wideRemoval(parts: Pick<DeliveryPath, (typeof RECORDS)[number]>): WideRemoval {
  const { storage, recipients } = parts;
  const wideStatus = createWideStatus({ storage, recipients, read: createDeliveryReader(recordsOf(parts)) });
  return createWideRemoval({ storage, wideStatus, due: (lines) => storage.queue.add(lines) });
}

export function composeHistory(container: Container<DeliveryPath>): void {
  container.make("history", RECORDS, (parts) => createHistory(recordsOf(parts)));
  container.make("attemptHistory", RECORDS, (parts) => createAttemptHistory(recordsOf(parts)));
  container.make("attemptSearch", RECORDS, (parts) => createAttemptSearch(recordsOf(parts)));
  container.make("replay", [...RECORDS, "endings", "metrics"], ({ endings, metrics, ...parts }) =>
    countedReplay(createReplay({ ...recordsOf(parts), endings }), metrics, "api"),
  );
  container.make("pendingDeliveries", [...RECORDS, "metrics"], (parts) =>
    countedPending(createPendingDeliveries(recordsOf(parts)), parts.metrics),
  );
  container.make("replayJob", [...RECORDS, "endings", "metrics"], ({ endings, metrics, ...parts }) => {
    const replay = createReplay({ ...recordsOf(parts), endings });
    return createReplayJob({ ...recordsOf(parts), replay: countedReplay(replay, metrics, "job") });
  });
  container.make("eventErasure", [...RECORDS, "cluster", "log"], ({ cluster, log, ...parts }) => {
    const { storage, clock, subscriptionCache } = parts;
    const pending = createPendingDeliveries(recordsOf(parts));
    const endTurns = createEndTurns({
      storage,
      subscriptionCache,
      clock,
      cancel: (...which) => pending.cancel(...which, []),
    });
    const forget = (ordinal: string): Promise<void> => cluster.announce("erased", ordinal);
    return createEventErasure({ storage, clock, log, wide: wideRemoval(parts), endTurns, forget });
  });
  container.make(
    "keyErasure",
    [...RECORDS, "eventErasure", "subscriptions", "cluster", "log"],
    ({ eventErasure: events, subscriptions, cluster, log, ...parts }) => {
      const { storage, clock } = parts;
      const ordinal = ordinals(() => clock.now());
      return createKeyErasure({
        storage,
        events,
        clock,
        log,
        wide: wideRemoval(parts),
        removeSubscription: subscriptions.remove,
        forgetAll: () => cluster.announce("erased", ALL_EVENTS),
        audit: (keyId, actor, line) => auditChange(keyId, ordinal(), actor, clock.now(), line),
      });
    },
  );
  container.make("retention", [...RECORDS, "log", "metrics", "plan"], (parts) =>
    createRetention({
      ...recordsOf(parts),
      log: parts.log,
      metrics: parts.metrics,
      rules: (parts.plan.jobs ?? []).filter((job) => job.name === "retention"),
    }),
  );
}

/** Counts the deliveries that a replay moves, by who asked for it. */
function countedReplay(replay: Replay, metrics: Metrics, by: "api" | "job"): Replay {
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

const countedPending = (pending: PendingDeliveries, metrics: Metrics): PendingDeliveries => ({
  tryNow: pending.tryNow,
  async cancel(...args) {
    await pending.cancel(...args);
    metrics.count("deliveries", { outcome: "cancelled" });
  },
});
