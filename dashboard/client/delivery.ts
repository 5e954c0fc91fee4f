/** Shows deliveries: one with its timeline, or the list of a subscription's. */
import { useState } from "preact/hooks";
import { answered } from "./answer.ts";
import { ask, path } from "./api.ts";
import { eventLink, typeName } from "./cut.ts";
import { el, part } from "./dom.ts";
import { choice } from "./fields.ts";
import { duration, reason } from "./format.ts";
import { loadStats, nameOf, useKnown } from "./api-keys.ts";
import { HealthText } from "./health.ts";
import { useNames } from "./known-names.ts";
import { badge, empty, PageFrame, problem, skeleton, showToast, TimeSwitch, useAction, When } from "./elements.ts";
import { useCalm, useLive, useLoad } from "./load.ts";
import { ReplayFailed } from "./replay.ts";
import { refine, to } from "./route.ts";
import { WhatWasSent } from "./sent.ts";
import type { Attempt, Delivery, RelayEvent } from "./shapes.ts";
import { Next, PendingActions } from "./pending-actions.ts";
import { useSelection } from "./selection.ts";
import { useSubscriptionMenu } from "./subscription-menu.ts";
import { tabs } from "./subscription.ts";
import { trail } from "./trail.ts";
import { timeline } from "./timeline.ts";
import { pager, table } from "./data-table.ts";
import { may } from "./may.ts";

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

export const DeliveryCard = part(({ keyId, event, data, delivery, again }: CardProps) => {
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
  return el.section(
    { class: "card", "aria-labelledby": id },
    el.header(
      { class: "card-head" },
      el.div(
        null,
        el.h2(
          { id },
          "To ",
          el.a(
            { href: to(["k", keyId, "subscriptions", subscriptionId]) },
            sub === undefined ? (delivery.subscriptionName ?? subscriptionId) : nameOf(sub),
          ),
        ),
        el.p(
          { class: "row" },
          badge(status, delivery.reason && reason(delivery.reason)),
          status === "pending" && Next({ delivery, sub }),
        ),
      ),
      may("change") &&
        (delivered || status === "failed" || delivery.reason === "cancel_requested") &&
        el.button({ type: "button", disabled: replay.busy, onClick: replay.run }, "Replay"),
      may("change") && status === "pending" && PendingActions({ keyId, eventId: event.id, subscriptionId, again }),
    ),
    problem(replay.error),
    attempts.length === 0 &&
      el.p({ class: "quiet" }, status === "pending" ? "There was no attempt yet." : "There was no attempt."),
    !whole &&
      el.button(
        { type: "button", class: "plain", disabled: older.busy, onClick: older.run },
        "Show the attempts before this replay",
      ),
    problem(older.error),
    ...cycles.map((cycle) =>
      el.div(
        { key: cycle },
        delivery.cycle > 0 && el.h3(null, cycle === 0 ? "At first" : `Replay ${cycle}`),
        timeline(
          all.filter((one) => one.cycle === cycle),
          (attempt) => WhatWasSent({ event, data, attempt, sub }),
        ),
      ),
    ),
  );
});

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
export const Deliveries = part(({ keyId, id, query }: ListProps) => {
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
  return PageFrame({
    title: sub === undefined ? (data?.data[0]?.subscriptionName ?? "Deliveries") : nameOf(sub),
    kicker: trail(keyId, "subscriptions", "Subscriptions", id),
    actions: [
      TimeSwitch({}),
      may("change") && el.button({ type: "button", onClick: () => setReplaying(true) }, "Replay failed…"),
      ...menu.buttons,
    ],
    children: [
      tabs(keyId, id, "deliveries"),
      sub !== undefined && HealthText({ one: sub }),
      choice({
        label: "Status",
        value: status ?? "",
        options: STATUSES,
        change: (next) => refine({ status: next, cursor: undefined }),
      }),
      problem(error, again),
      loading && (data?.data.length ?? 0) === 0 && skeleton(),
      data !== undefined &&
        !loading &&
        data.data.length === 0 &&
        empty("No delivery here", "Events that this subscription wants appear by themselves."),
      data !== undefined && data.data.length > 0 && selection.bar(again),
      data !== undefined &&
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
              el.span(
                null,
                badge(one.status),
                one.status === "pending" && el.small(null, Next({ delivery: one, sub })),
              ),
              el.span({ class: "figure" }, String(one.attempts.length)),
              answered(one.attempts.at(-1), ` in ${duration(one.attempts.at(-1)?.durationMs)}`),
              When({ at: one.updatedAt }),
            ],
          })),
        ),
      data !== undefined && pager("deliveries", cursor, data.meta.nextCursor),
      problem(menu.error),
      ...menu.dialogs,
      replaying && ReplayFailed({ keyId, only: id, close: () => setReplaying(false) }),
    ],
  });
});
