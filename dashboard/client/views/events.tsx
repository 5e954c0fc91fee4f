/** Lists the events of a key, newest first; new ones appear by themselves. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { answered } from "../kit/attempts.tsx";
import { type ApiAnswer, ask, path } from "../state/api.ts";
import { count } from "../state/format.ts";
import { useNames } from "../state/api-keys.ts";
import { Filters, NO_FILTER, periodOf } from "../kit/filters.tsx";
import { eventLink, typeName } from "../kit/cut.tsx";
import { badge, Button, empty, PageFrame, TimeSwitch, When } from "../kit/elements.tsx";
import { type LoadState, useCalm, useLive, useLoad } from "../state/load.ts";
import { PublishButton } from "../forms/publish-event.tsx";
import { ReplayFailed } from "../forms/replay.tsx";
import { refine } from "../state/route.ts";
import { useSelection } from "../kit/selection.tsx";
import { Export, isSearch, NO_SEARCH, Search, searched } from "../kit/search.tsx";
import type { EventStatus, Query, RelayEvent, ViewProps } from "../shapes.ts";
import { ListView } from "../kit/list.tsx";
import { may } from "../state/token.ts";

const PAGE = 25;
const STATUSES = ["pending", "delivered", "failed", "cancelled", "unmatched"] as const;

export const Events = ({ keyId, query }: ViewProps) => {
  const { delivery, status, type, sub, cursor } = query;
  const { since, until } = periodOf(query);
  const asks = { delivery, status, type, subscriptionId: sub, since, until, ...searched(query) };
  const { load, rows, statusOf } = useEvents(keyId, query, asks);
  const [replaying, setReplaying] = useState(false);
  const picked = ({ id }: RelayEvent) => ({ eventId: id });
  const selection = useSelection(keyId, rows.map(picked), load.again);
  const goesTo = useReceivers(keyId, rows);
  return (
    <PageFrame
      title="Events"
      kicker={<code>{keyId}</code>}
      actions={[
        <TimeSwitch />,
        <Export keyId={keyId} asks={asks} />,
        <PublishButton keyId={keyId} />,
        may("change") && <Button text="Replay failed…" act={() => setReplaying(true)} />,
      ]}
    >
      <Filters query={query} statuses={STATUSES} keyId={keyId} />
      <Search query={query} key={JSON.stringify(searched(query))} />
      <ListView
        name="Events"
        load={load}
        rows={rows}
        keyOf={({ id }) => id}
        bar={selection.bar}
        plain
        columns={{
          Event: (one) => selection.pick(picked(one), eventLink(keyId, one.id, true)),
          Type: (one) => typeName(one.type),
          Status: (one) => outcome(one, statusOf(one)),
          "Last answer": ({ lastAttempt }) => answered(lastAttempt),
          To: (one) => (
            <span class="receiver" title={goesTo(one)}>
              {goesTo(one)}
            </span>
          ),
          Accepted: ({ acceptedAt }) => <When at={acceptedAt} />,
        }}
        empty={Object.values(asks).some((one) => one !== undefined) ? noMatch(load.data, query) : noEvent()}
        size={PAGE}
        cursor={cursor}
      />
      {replaying && <ReplayFailed keyId={keyId} only={sub} close={() => setReplaying(false)} />}
    </PageFrame>
  );
};

/** `7 of 8 delivered · 1 waits`: red where one failed. Of one delivery its status says it all. */
function outcome({ deliveryCounts: counts }: RelayEvent, status: EventStatus): VNode {
  if (counts === undefined || counts.total < 2) return badge(status);
  const { delivered, failed, pending, total } = counts;
  const worst = failed > 0 ? "failed" : pending > 0 ? "pending" : status;
  const more = [
    failed > 0 && `${count(failed)} failed`,
    pending > 0 && `${count(pending)} ${pending === 1 ? "waits" : "wait"}`,
  ];
  return badge(worst, [`${count(delivered)} of ${count(total)} delivered`, ...more.filter(Boolean)].join(" · "));
}

/** A figure counts when a delivery ended; its event may be older. */
const OLDER = " Deliveries that were retried may be of events from before this time: choose a longer one.";

const noMatch = (data: ApiAnswer<unknown> | undefined, { text, delivery, time = "" }: Query) =>
  empty(
    data?.meta.searchedTo === undefined ? "No event matches" : "Nothing found so far",
    `Try another status, type, time or search.${text === undefined ? "" : " Upper and lower case count in data."}${delivery !== undefined && time !== "" ? OLDER : ""}`,
    <Button text="Show all" act={() => refine({ ...NO_SEARCH, ...NO_FILTER, cursor: undefined })} />,
  );

const noEvent = () =>
  empty("No event yet", [
    "Publish one with ",
    <code>POST /events</code>,
    ", with ",
    <code>relay publish</code>,
    may("publish") && ", or with the button above",
    ". It appears here by itself.",
  ]);

/** An event of the stream. */
interface Fresh extends RelayEvent {
  /** The number of the reading of the list that began last before it came. */
  readonly read: number;
}

interface EventList {
  readonly load: LoadState<ApiAnswer<readonly RelayEvent[]>>;
  readonly rows: readonly RelayEvent[];
  readonly statusOf: (one: RelayEvent) => EventStatus;
}

/** Reads a page of the list, and merges into it what the stream tells meanwhile. */
function useEvents(keyId: string, query: Query, asks: Readonly<Record<string, string | undefined>>): EventList {
  const { cursor } = query;
  const reads = useRef(0);
  const load = useLoad(
    async (signal) => {
      const read = ++reads.current;
      const page = { ...asks, cursor, limit: String(PAGE) };
      const answer = await ask<readonly RelayEvent[]>("GET", path("/api-keys/{}/events", [keyId], page), { signal });
      return { ...answer, read };
    },
    [keyId, cursor, ...Object.values(asks)],
  );
  const { data, loading, again } = load;
  const [fresh, setFresh] = useState<readonly Fresh[]>([]);
  /** The same, also between two messages that come at once: nothing is drawn between them. */
  const arrived = useRef(fresh);
  const changeFresh = (change: (before: readonly Fresh[]) => readonly Fresh[]): void =>
    setFresh((arrived.current = change(arrived.current)));
  const [changed, setChanged] = useState<ReadonlyMap<string, EventStatus>>(new Map());
  useEffect(() => {
    // The list may lack what came while it was on its way.
    changeFresh((before) => before.filter(({ read }) => read >= (data?.read ?? 0)));
    setChanged(new Map());
  }, [data]);
  const listed = data?.data ?? [];
  const soon = useCalm(again);
  useLive((message) => {
    if (message.event === "again") return again();
    if (message.event === "event") {
      const { deliveries, ...event } = message.data;
      if (cursor !== undefined || asks["until"] !== undefined || (query["type"] ?? event.type) !== event.type) return;
      // Only the relay knows whether it matches a filter by status or subscription, or a search.
      if (
        query["delivery"] !== undefined ||
        query["status"] !== undefined ||
        query["sub"] !== undefined ||
        isSearch(query)
      )
        return soon(CALM_MS);
      const status = deliveries === 0 ? "unmatched" : "pending";
      const one: Fresh = { ...event, recipients: deliveries, status, read: reads.current };
      changeFresh((before) => [one, ...before.filter(({ id }) => id !== one.id)].slice(0, PAGE));
    } else if (message.event === "attempt") {
      const { eventId, status } = message.data;
      const isShown = [...arrived.current, ...listed].some(({ id }) => id === eventId);
      // The list that is on its way may show it, as it was before.
      if ((!isShown && !loading) || status === "pending") return;
      setChanged((before) => new Map(before).set(eventId, status));
      // With several deliveries its status is the worst of them: that is loaded again, once for many.
      soon(CALM_MS);
    }
  });
  const fromStream = fresh.filter(({ id }) => !listed.some((one) => one.id === id));
  const rows = [...fromStream, ...listed].slice(0, Math.max(PAGE, listed.length));
  return { load, rows, statusOf: (one) => changed.get(one.id) ?? one.status };
}

/** When the list is read again because of a message of the stream, ms: once for all of it. */
const CALM_MS = 2_000;

/** Returns what names the only receiver of an event, or says how many there are. */
function useReceivers(keyId: string, rows: readonly RelayEvent[]): (one: RelayEvent) => string {
  const named = rows.flatMap(({ subscriptionIds, subscriptionName }) =>
    subscriptionName === undefined ? [] : [[subscriptionIds?.[0] ?? "", subscriptionName] as const],
  );
  const only = rows.flatMap((one) => (one.recipients === 1 ? (one.subscriptionIds ?? []) : []));
  const name = useNames(keyId, only, false, new Map(named));
  return ({ recipients, subscriptionIds: [first] = [] }) => {
    if (recipients === undefined) return "–";
    if (recipients === 1 && first !== undefined) return name(first);
    return recipients === 0 ? "nobody" : `${count(recipients)} subscriptions`;
  };
}
