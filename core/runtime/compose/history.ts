/** Composes what reads, replays and removes stored events. */
import { createAttemptHistory } from "../../history/attempts.ts";
import { createHistory } from "../../history/events.ts";
import { createReplay } from "../../replay/replay.ts";
import { createReplayJob } from "../../replay/replay-job.ts";
import { createEventErasure } from "../../retention/erase-event.ts";
import { createWideRemoval } from "../../retention/remove-wide.ts";
import { createRetention } from "../../retention/retention.ts";
import { createDeliveryReader } from "../../records/delivery-view.ts";
import { createWideStatus } from "../../records/wide-status.ts";
import { countedReplay } from "../log-replays.ts";
import type { Container } from "./container.ts";
import type { DeliveryPath } from "./parts.ts";

const RECORDS = ["storage", "clock", "subscriptionCache", "recipients"] as const;
const recordsOf = ({
  storage,
  clock,
  subscriptionCache,
  recipients,
}: Pick<DeliveryPath, (typeof RECORDS)[number]>) => ({ storage, clock, subscriptionCache, recipients });

export function composeHistory(container: Container<DeliveryPath>): void {
  container.make("history", RECORDS, (parts) => createHistory(recordsOf(parts)));
  container.make("attemptHistory", RECORDS, (parts) => createAttemptHistory(recordsOf(parts)));
  container.make("replay", [...RECORDS, "metrics"], (parts) =>
    countedReplay(createReplay(recordsOf(parts)), parts.metrics, "api"),
  );
  container.make("replayJob", [...RECORDS, "metrics"], (parts) => {
    const records = recordsOf(parts);
    return createReplayJob({ ...records, replay: countedReplay(createReplay(records), parts.metrics, "job") });
  });
  container.make("eventErasure", [...RECORDS, "cluster", "log"], ({ cluster, log, ...parts }) => {
    const { storage, clock, recipients } = parts;
    const wideStatus = createWideStatus({ storage, recipients, read: createDeliveryReader(recordsOf(parts)) });
    const wide = createWideRemoval({ storage, wideStatus, due: (lines) => storage.queue.add(lines) });
    const forget = (ordinal: string): Promise<void> => cluster.announce("erased", ordinal);
    return createEventErasure({ storage, clock, log, wide, forget });
  });
  container.make("retention", [...RECORDS, "metrics", "plan"], (parts) =>
    createRetention({
      ...recordsOf(parts),
      metrics: parts.metrics,
      rules: (parts.plan.jobs ?? []).filter((job) => job.name === "retention"),
    }),
  );
}
