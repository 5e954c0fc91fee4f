/** Lists the deliveries of one subscription, the newest event first. */
import { useState } from "preact/hooks";
import { answered } from "../kit/attempts.tsx";
import { path } from "../state/api.ts";
import { eventLink, trail, typeName } from "../kit/cut.tsx";
import { Choice } from "../kit/fields.tsx";
import { duration } from "../state/format.ts";
import { loadStats, nameOf, useKnown, useNames } from "../state/api-keys.ts";
import { HealthText } from "../kit/health.tsx";
import { badge, Button, empty, PageFrame, problem, TimeSwitch, When } from "../kit/elements.tsx";
import { useAsk } from "../state/load.ts";
import { ReplayFailed } from "../forms/replay.tsx";
import { refine } from "../state/route.ts";
import type { Delivery, OneProps, ViewProps } from "../shapes.ts";
import { Next } from "./delivery.tsx";
import { useSelection } from "../kit/selection.tsx";
import { useSubscriptionMenu } from "../forms/subscription-actions.tsx";
import { tabs } from "./subscription.tsx";
import { ListView } from "../kit/list.tsx";
import { may } from "../state/token.ts";

const STATUSES = [
  ["", "All"],
  ["pending", "Pending"],
  ["delivered", "Delivered"],
  ["failed", "Failed"],
  ["cancelled", "Cancelled"],
] as const;

export const Deliveries = ({ keyId, id, query: { status, cursor } }: OneProps & ViewProps) => {
  const sub = useKnown(keyId).get(id);
  useNames(keyId, [id]);
  const [replaying, setReplaying] = useState(false);
  const route = path("/api-keys/{}/webhooks/{}/deliveries", [keyId, id], { status, cursor, limit: "25" });
  const load = useAsk<readonly Delivery[]>(route, (message) => {
    const own = message.event === "attempt" && message.data.subscriptionId === id;
    // Only the relay knows whether an event is for this subscription; its delivery may wait long for its first attempt.
    const fresh = message.event === "event" && cursor === undefined && (status ?? "pending") === "pending";
    return (message.event === "again" || own || fresh) && 2_000;
  });
  const { again } = load;
  const rows = load.data?.data ?? [];
  const menu = useSubscriptionMenu(keyId, sub, () => void loadStats(keyId, "24h").then(again, again));
  const picked = ({ eventId = "" }: Delivery) => ({ eventId, subscriptionId: id });
  const selection = useSelection(keyId, rows.map(picked), again);
  const replay = may("change") && <Button text="Replay failed…" act={() => setReplaying(true)} />;
  return (
    <PageFrame
      title={sub === undefined ? (rows[0]?.subscriptionName ?? "Deliveries") : nameOf(sub)}
      kicker={trail(keyId, "subscriptions", id)}
      actions={[<TimeSwitch />, replay, ...menu.buttons]}
    >
      {tabs(keyId, id, "Deliveries")}
      {sub !== undefined && <HealthText one={sub} />}
      <Choice
        label="Status"
        value={status ?? ""}
        options={STATUSES}
        change={(next) => refine({ status: next, cursor: undefined })}
      />
      <ListView
        name="Deliveries"
        load={load}
        keyOf={(one) => one.id}
        bar={selection.bar}
        columns={{
          Event: (one) => selection.pick(picked(one), eventLink(keyId, one.eventId ?? "", true)),
          Type: ({ type }) => (type === undefined ? "–" : typeName(type)),
          Status: (one) => (
            <span>
              {badge(one.status)}
              {one.status === "pending" && (
                <small>
                  <Next delivery={one} sub={sub} />
                </small>
              )}
            </span>
          ),
          Attempts: ({ attempts }) => <span class="figure">{String(attempts.length)}</span>,
          "Last answer": ({ attempts }) => answered(attempts.at(-1), ` in ${duration(attempts.at(-1)?.durationMs)}`),
          Changed: ({ updatedAt }) => <When at={updatedAt} />,
        }}
        empty={empty("No delivery here", "Events that this subscription wants appear by themselves.")}
        cursor={cursor}
      />
      {problem(menu.error)}
      {menu.dialogs}
      {replaying && <ReplayFailed keyId={keyId} only={id} close={() => setReplaying(false)} />}
    </PageFrame>
  );
};
