/** Lists the attempts of a key over all its events: what receivers answered, newest event first. */
import { answerBadge } from "../kit/attempts.tsx";
import { path } from "../state/api.ts";
import { ListView } from "../kit/list.tsx";
import { eventLink, typeName } from "../kit/cut.tsx";
import { Button, empty, link, PageFrame, TimeSwitch, When } from "../kit/elements.tsx";
import { useAsk } from "../state/load.ts";
import { Filters, periodOf } from "../kit/filters.tsx";
import { duration } from "../state/format.ts";
import { useNames } from "../state/api-keys.ts";
import { to } from "../state/route.ts";
import { Search, searched } from "../kit/search.tsx";
import type { FoundAttempt, ViewProps } from "../shapes.ts";

const PAGE = 25;

export const Attempts = ({ keyId, query }: ViewProps) => {
  const { sub, cursor } = query;
  const { statusCode, error, minDurationMs } = searched(query);
  const asks = { subscriptionId: sub, statusCode, error, minDurationMs, ...periodOf(query) };
  const page = { ...asks, cursor, limit: String(PAGE) };
  const load = useAsk<readonly FoundAttempt[]>(path("/api-keys/{}/attempts", [keyId], page));
  const { data } = load;
  const rows = data?.data ?? [];
  const given = new Map(rows.map((one) => [one.subscriptionId, one.subscriptionName]));
  const name = useNames(keyId, [...given.keys()], false, given);
  return (
    <PageFrame
      title="Attempts"
      kicker={<code>{keyId}</code>}
      actions={[<TimeSwitch />, <Button text="Look again" act={load.again} />]}
    >
      <Filters query={query} statuses={[]} keyId={keyId} />
      <Search query={query} attempts key={JSON.stringify(searched(query))} />
      <ListView
        name="Attempts"
        load={load}
        keyOf={({ id }) => id}
        plain
        columns={{
          Answer: answerBadge,
          Took: ({ durationMs }) => <span class="figure">{duration(durationMs)}</span>,
          To: ({ subscriptionId: id }) =>
            link(to(["k", keyId, "subscriptions", id, "deliveries"]), name(id), "receiver", name(id)),
          Event: ({ eventId }) => eventLink(keyId, eventId, true),
          Type: ({ type }) => typeName(type),
          At: ({ startedAt }) => <When at={startedAt} />,
        }}
        empty={empty(
          data?.meta.searchedTo === undefined ? "No attempt here" : "Nothing found so far",
          "Each request to a receiver is listed here with its answer.",
        )}
        size={PAGE}
        cursor={cursor}
      />
    </PageFrame>
  );
};
