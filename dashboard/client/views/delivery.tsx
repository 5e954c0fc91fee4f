/** Shows deliveries: one with its timeline, or the list of a subscription's. */
import { useState } from "preact/hooks";
import { answered } from "../kit/answer.tsx";
import { ask, path } from "../state/api.ts";
import { eventLink, typeName } from "../kit/cut.tsx";
import { Choice } from "../kit/fields.tsx";
import { duration, reason } from "../state/format.ts";
import { loadStats, nameOf, useKnown } from "../state/api-keys.ts";
import { HealthText } from "../kit/health.tsx";
import { useNames } from "../state/known-names.ts";
import {
  badge,
  empty,
  PageFrame,
  problem,
  skeleton,
  showToast,
  TimeSwitch,
  useAction,
  When,
} from "../kit/elements.tsx";
import { useCalm, useLive, useLoad } from "../state/load.ts";
import { ReplayFailed } from "../forms/replay.tsx";
import { refine, to } from "../state/route.ts";
import { WhatWasSent } from "./sent.tsx";
import type { Attempt, Delivery, RelayEvent } from "../shapes.ts";
import { Next, PendingActions } from "./pending-actions.tsx";
import { useSelection } from "../kit/selection.tsx";
import { useSubscriptionMenu } from "./subscription-menu.tsx";
import { tabs } from "./subscription.tsx";
import { trail } from "../kit/trail.tsx";
import { timeline } from "../kit/timeline.tsx";
import { pager, table } from "../kit/data-table.tsx";
import { may } from "../state/may.ts";

interface CardProps {
  readonly keyId: string;
  readonly event: RelayEvent;
  /** The published bytes. */
  readonly data: string;
  readonly delivery: Delivery;
  readonly again: () => void;
}

/** Attempts of the cycles before one. */
interface Earlier {
  readonly cycle?: number;
  readonly attempts: readonly Attempt[];
  readonly cursor?: string | undefined;
  /** Whether there are no more. */
  readonly whole?: boolean;
}
const NOTHING: Earlier = { attempts: [] };

export const DeliveryCard = ({ keyId, event, data, delivery, again }: CardProps) => {
  const { id, subscriptionId, status, attempts } = delivery;
  const sub = useKnown(keyId).get(subscriptionId);
  const delivered = status === "delivered";
  const replay = useAction(async () => {
    const body = { subscriptionId, ...(delivered ? { force: true } : {}) };
    await ask("POST", path("/api-keys/{}/events/{}/replay", [keyId, event.id]), { body });
    showToast("It is replayed");
    again();
  });
  // A replay begins a new cycle: the attempts before it are read again, because they are earlier ones now.
  const { cycle: newest } = delivery;
  const [read, setRead] = useState<Earlier>({ cycle: newest, attempts: [] });
  const { attempts: earlier, cursor, whole = newest === 0 } = read.cycle === newest ? read : NOTHING;
  const older = useAction(async () => {
    const at = path("/api-keys/{}/events/{}/deliveries/{}/attempts", [keyId, event.id, subscriptionId], { cursor });
    const page = await ask<readonly Attempt[]>("GET", at, {});
    const { nextCursor } = page.meta;
    const more = page.data.filter(({ cycle }) => cycle < newest).toReversed();
    setRead({ cycle: newest, attempts: [...more, ...earlier], cursor: nextCursor, whole: nextCursor === undefined });
  });
  const all = [...earlier, ...attempts];
  const cycles = [...new Set(all.map(({ cycle }) => cycle))];
  return (
    <section class="card" aria-labelledby={id}>
      <header class="card-head">
        <div>
          <h2 id={id}>
            To{" "}
            <a href={to(["k", keyId, "subscriptions", subscriptionId])}>
              {sub === undefined ? (delivery.subscriptionName ?? subscriptionId) : nameOf(sub)}
            </a>
          </h2>
          <p class="row">
            {badge(status, delivery.reason && reason(delivery.reason))}
            {status === "pending" && <Next delivery={delivery} sub={sub} />}
          </p>
        </div>
        {may("change") && (delivered || status === "failed" || delivery.reason === "cancel_requested") && (
          <button type="button" disabled={replay.busy} onClick={replay.run}>
            Replay
          </button>
        )}
        {may("change") && status === "pending" && (
          <PendingActions keyId={keyId} eventId={event.id} subscriptionId={subscriptionId} again={again} />
        )}
      </header>
      {problem(replay.error)}
      {attempts.length === 0 && (
        <p class="quiet">{status === "pending" ? "There was no attempt yet." : "There was no attempt."}</p>
      )}
      {!whole && (
        <button type="button" class="plain" disabled={older.busy} onClick={older.run}>
          Show the attempts before this replay
        </button>
      )}
      {problem(older.error)}
      {cycles.map((cycle) => (
        <div key={cycle}>
          {delivery.cycle > 0 && <h3>{cycle === 0 ? "At first" : `Replay ${cycle}`}</h3>}
          {timeline(
            all.filter((one) => one.cycle === cycle),
            (attempt) => (
              <WhatWasSent event={event} data={data} attempt={attempt} sub={sub} />
            ),
          )}
        </div>
      ))}
    </section>
  );
};

interface ListProps {
  readonly keyId: string;
  readonly id: string;
  readonly query: Readonly<Record<string, string>>;
}

const STATUSES = [
  ["", "All"],
  ["pending", "Pending"],
  ["delivered", "Delivered"],
  ["failed", "Failed"],
  ["cancelled", "Cancelled"],
] as const;

/** Lists one subscription's deliveries, the newest event first. */
export const Deliveries = ({ keyId, id, query }: ListProps) => {
  const { status, cursor } = query;
  const sub = useKnown(keyId).get(id);
  useNames(keyId, [id]);
  const [replaying, setReplaying] = useState(false);
  const { data, error, loading, again } = useLoad(
    (signal) =>
      ask<readonly Delivery[]>(
        "GET",
        path("/api-keys/{}/webhooks/{}/deliveries", [keyId, id], { status, cursor, limit: "25" }),
        { signal },
      ),
    [keyId, id, status, cursor],
  );
  const changed = (): void => void loadStats(keyId, "24h").then(again, again);
  const menu = useSubscriptionMenu(keyId, sub, changed);
  const soon = useCalm(again, 2_000);
  useLive((message) => {
    const own = message.event === "attempt" && message.data.subscriptionId === id;
    // Only the relay knows whether an event is for this subscription; its delivery may wait long for its first attempt.
    const fresh = message.event === "event" && cursor === undefined && (status ?? "pending") === "pending";
    if (message.event === "again" || own || fresh) soon();
  });
  const selection = useSelection(
    keyId,
    (data?.data ?? []).map((one) => ({ eventId: one.eventId ?? "", subscriptionId: id })),
  );
  return (
    <PageFrame
      title={sub === undefined ? (data?.data[0]?.subscriptionName ?? "Deliveries") : nameOf(sub)}
      kicker={trail(keyId, "subscriptions", "Subscriptions", id)}
      actions={[
        <TimeSwitch />,
        may("change") && (
          <button type="button" onClick={() => setReplaying(true)}>
            Replay failed…
          </button>
        ),
        ...menu.buttons,
      ]}
    >
      {tabs(keyId, id, "deliveries")}
      {sub !== undefined && <HealthText one={sub} />}
      <Choice
        label="Status"
        value={status ?? ""}
        options={STATUSES}
        change={(next) => refine({ status: next, cursor: undefined })}
      />
      {problem(error, again)}
      {loading && (data?.data.length ?? 0) === 0 && skeleton()}
      {data !== undefined &&
        !loading &&
        data.data.length === 0 &&
        empty("No delivery here", "Events that this subscription wants appear by themselves.")}
      {data !== undefined && data.data.length > 0 && selection.bar(again)}
      {data !== undefined &&
        data.data.length > 0 &&
        table(
          "Deliveries",
          ["Event", "Type", "Status", "Attempts", "Last answer", "Changed"],
          data.data.map((one) => ({
            key: one.id,
            cells: [
              selection.pick(
                { eventId: one.eventId ?? "", subscriptionId: id },
                eventLink(keyId, one.eventId ?? "", true),
              ),
              one.type === undefined ? "–" : typeName(one.type),
              <span>
                {badge(one.status)}
                {one.status === "pending" && (
                  <small>
                    <Next delivery={one} sub={sub} />
                  </small>
                )}
              </span>,
              <span class="figure">{String(one.attempts.length)}</span>,
              answered(one.attempts.at(-1), ` in ${duration(one.attempts.at(-1)?.durationMs)}`),
              <When at={one.updatedAt} />,
            ],
          })),
        )}
      {data !== undefined && pager("deliveries", cursor, data.meta.nextCursor)}
      {problem(menu.error)}
      {menu.dialogs}
      {replaying && <ReplayFailed keyId={keyId} only={id} close={() => setReplaying(false)} />}
    </PageFrame>
  );
};
