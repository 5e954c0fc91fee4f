/** Lists the events of a key, newest first; new ones appear by themselves. */
import { useEffect, useRef, useState } from "preact/hooks";
import { answered } from "../kit/answer.tsx";
import { ask, path } from "../state/api.ts";
import { count } from "../state/format.ts";
import { useNames } from "../state/known-names.ts";
import { Filters, periodOf } from "../kit/filters.tsx";
import { eventLink, typeName } from "../kit/cut.tsx";
import { badge, empty, PageFrame, problem, skeleton, TimeSwitch, When } from "../kit/elements.tsx";
import { useCalm, useLive, useLoad } from "../state/load.ts";
import { PublishButton } from "../forms/publish-event.tsx";
import { ReplayFailed } from "../forms/replay.tsx";
import { refine } from "../state/route.ts";
import { useSelection } from "../kit/selection.tsx";
import { Export, isSearch, lookedBack, NO_SEARCH, Search, searched } from "../kit/search.tsx";
import type { EventStatus, RelayEvent } from "../shapes.ts";
import { pager, table } from "../kit/data-table.tsx";
import { may } from "../state/may.ts";

interface EventsProps {
  readonly keyId: string;
  readonly query: Readonly<Record<string, string>>;
}

/** An event of the stream. */
interface Fresh extends RelayEvent {
  /** The number of the reading of the list that began last before it came. */
  readonly read: number;
}

const PAGE = 25;
const STATUSES = ["pending", "delivered", "failed", "cancelled", "unmatched"] as const;

export const Events = ({ keyId, query }: EventsProps) => {
  const { status, type, sub, cursor } = query;
  const { since, until } = periodOf(query);
  const asks = { status, type, subscriptionId: sub, since, until, ...searched(query) };
  const reads = useRef(0);
  const { data, error, loading, again } = useLoad(
    async (signal) => {
      const read = ++reads.current;
      const page = { ...asks, cursor, limit: String(PAGE) };
      const answer = await ask<readonly RelayEvent[]>("GET", path("/api-keys/{}/events", [keyId], page), { signal });
      return { ...answer, read };
    },
    [keyId, cursor, ...Object.values(asks)],
  );
  const [fresh, setFresh] = useState<readonly Fresh[]>([]);
  /** The same, also between two messages that come at once: nothing is drawn between them. */
  const arrived = useRef(fresh);
  const changeFresh = (change: (before: readonly Fresh[]) => readonly Fresh[]): void =>
    setFresh((arrived.current = change(arrived.current)));
  const [changed, setChanged] = useState<ReadonlyMap<string, EventStatus>>(new Map());
  const [replaying, setReplaying] = useState(false);
  useEffect(() => {
    // What came while the list was on its way may not be in it.
    changeFresh((before) => before.filter(({ read }) => read >= (data?.read ?? 0)));
    setChanged(new Map());
  }, [data]);

  const newest = cursor === undefined && until === undefined;
  const soon = useCalm(again, 2_000);
  useLive((message) => {
    if (message.event === "again") return again();
    if (message.event === "event") {
      const { deliveries, ...event } = message.data;
      if (!newest || (type !== undefined && type !== event.type)) return;
      // Only the relay knows whether it matches a filter by status or subscription, or a search.
      if (status !== undefined || sub !== undefined || isSearch(query)) return soon();
      const first = deliveries === 0 ? "unmatched" : "pending";
      const one: Fresh = { ...event, recipients: deliveries, status: first, read: reads.current };
      changeFresh((before) => [one, ...before.filter(({ id }) => id !== one.id)].slice(0, PAGE));
    } else if (message.event === "attempt") {
      const { eventId, status: now } = message.data;
      const shown = [...arrived.current, ...(data?.data ?? [])].find(({ id }) => id === eventId);
      // The list that is on its way may show it, as it was before.
      if ((shown === undefined && !loading) || now === "pending") return;
      setChanged((before) => new Map(before).set(eventId, now));
      // With several deliveries its status is the worst of them: that is loaded again, once for many.
      soon();
    }
  });

  const listed = data?.data ?? [];
  const fromStream = fresh.filter(({ id }) => !listed.some((one) => one.id === id));
  const rows = [...fromStream, ...listed].slice(0, Math.max(PAGE, listed.length));
  const selection = useSelection(
    keyId,
    rows.map(({ id }) => ({ eventId: id })),
  );
  const name = useNames(
    keyId,
    rows.flatMap((one) => (one.recipients === 1 ? (one.subscriptionIds ?? []) : [])),
    false,
    new Map(
      rows.flatMap((one) =>
        one.subscriptionName === undefined ? [] : [[one.subscriptionIds?.[0] ?? "", one.subscriptionName]],
      ),
    ),
  );
  const filtered = Object.values(asks).some((one) => one !== undefined);
  return (
    <PageFrame
      title="Events"
      kicker={<code>{keyId}</code>}
      actions={[
        <TimeSwitch />,
        <Export keyId={keyId} asks={asks} />,
        <PublishButton keyId={keyId} />,
        may("change") && (
          <button type="button" onClick={() => setReplaying(true)}>
            Replay failed…
          </button>
        ),
      ]}
    >
      <Filters query={query} statuses={STATUSES} keyId={keyId} />
      <Search query={query} key={JSON.stringify(searched(query))} />
      {problem(error, again)}
      {rows.length === 0 && loading && skeleton()}
      {data !== undefined &&
        !loading &&
        rows.length === 0 &&
        (filtered
          ? empty(
              data.meta.searchedTo === undefined ? "No event matches" : "Nothing found so far",
              query["text"] === undefined
                ? "Try another status, type, time or search."
                : "Try another status, type, time or search. Upper and lower case count in data.",
              <button
                type="button"
                onClick={() =>
                  refine({
                    ...NO_SEARCH,
                    status: undefined,
                    type: undefined,
                    sub: undefined,
                    time: undefined,
                    since: undefined,
                    until: undefined,
                    cursor: undefined,
                  })
                }
              >
                Show all
              </button>,
            )
          : empty("No event yet", [
              "Publish one with ",
              <code>POST /events</code>,
              ", with ",
              <code>relay publish</code>,
              may("publish") && ", or with the button above",
              ". It appears here by itself.",
            ]))}
      {rows.length > 0 && selection.bar(again)}
      {rows.length > 0 && (
        <div aria-busy={loading}>
          {table(
            "Events",
            ["Event", "Type", "Status", "Last answer", "To", "Accepted"],
            rows.map((one) => ({
              key: one.id,
              cells: [
                selection.pick({ eventId: one.id }, eventLink(keyId, one.id, true)),
                typeName(one.type),
                badge(changed.get(one.id) ?? one.status),
                answered(one.lastAttempt),
                <span class="receiver" title={goesTo(one, name)}>
                  {goesTo(one, name)}
                </span>,
                <When at={one.acceptedAt} />,
              ],
            })),
            true,
          )}
        </div>
      )}
      {rows.length < PAGE && lookedBack(data?.meta.searchedTo, rows.length)}
      {data !== undefined && pager("events", cursor, data.meta.nextCursor)}
      {replaying && <ReplayFailed keyId={keyId} only={sub} close={() => setReplaying(false)} />}
    </PageFrame>
  );
};

/** Names the only receiver, or says how many there are. */
function goesTo({ recipients, subscriptionIds = [] }: RelayEvent, name: (id: string) => string): string {
  const [only] = subscriptionIds;
  if (recipients === undefined) return "–";
  if (recipients === 1 && only !== undefined) return name(only);
  return recipients === 0 ? "nobody" : `${count(recipients)} subscriptions`;
}
