/** Lists the attempts of a key over all its events: what receivers answered, newest event first. */
import { answerBadge } from "../kit/answer.tsx";
import { ask, path } from "../state/api.ts";
import { pager, table } from "../kit/data-table.tsx";
import { eventLink, typeName } from "../kit/cut.tsx";
import { empty, PageFrame, problem, skeleton, TimeSwitch, When } from "../kit/elements.tsx";
import { useLoad } from "../state/load.ts";
import { Filters, periodOf } from "../kit/filters.tsx";
import { duration } from "../state/format.ts";
import { useNames } from "../state/known-names.ts";
import { to } from "../state/route.ts";
import { lookedBack, Search, searched } from "../kit/search.tsx";
import type { FoundAttempt } from "../shapes.ts";

interface AttemptsProps {
  readonly keyId: string;
  readonly query: Readonly<Record<string, string>>;
}

const PAGE = 25;

export const Attempts = ({ keyId, query }: AttemptsProps) => {
  const { sub, cursor } = query;
  const { statusCode, error: stage, minDurationMs } = searched(query);
  const asks = { subscriptionId: sub, statusCode, error: stage, minDurationMs, ...periodOf(query) };
  const { data, error, loading, again } = useLoad(
    (signal) => {
      const page = { ...asks, cursor, limit: String(PAGE) };
      return ask<readonly FoundAttempt[]>("GET", path("/api-keys/{}/attempts", [keyId], page), { signal });
    },
    [keyId, cursor, ...Object.values(asks)],
  );
  const rows = data?.data ?? [];
  const name = useNames(
    keyId,
    rows.map(({ subscriptionId }) => subscriptionId),
    false,
    new Map(rows.map((one) => [one.subscriptionId, one.subscriptionName])),
  );
  return (
    <PageFrame
      title="Attempts"
      kicker={<code>{keyId}</code>}
      actions={[
        <TimeSwitch />,
        <button type="button" onClick={again}>
          Look again
        </button>,
      ]}
    >
      <Filters query={query} statuses={[]} keyId={keyId} />
      <Search query={query} attempts key={JSON.stringify(searched(query))} />
      {problem(error, again)}
      {rows.length === 0 && loading && skeleton()}
      {data !== undefined &&
        !loading &&
        rows.length === 0 &&
        empty(
          data.meta.searchedTo === undefined ? "No attempt here" : "Nothing found so far",
          "Each request to a receiver is listed here with its answer.",
        )}
      {rows.length > 0 && (
        <div aria-busy={loading}>
          {table(
            "Attempts",
            ["Answer", "Took", "To", "Event", "Type", "At"],
            rows.map((one) => ({
              key: one.id,
              cells: [
                answerBadge(one),
                <span class="figure">{duration(one.durationMs)}</span>,
                <a
                  class="receiver"
                  title={name(one.subscriptionId)}
                  href={to(["k", keyId, "subscriptions", one.subscriptionId, "deliveries"])}
                >
                  {name(one.subscriptionId)}
                </a>,
                eventLink(keyId, one.eventId, true),
                typeName(one.type),
                <When at={one.startedAt} />,
              ],
            })),
            true,
          )}
        </div>
      )}
      {rows.length < PAGE && lookedBack(data?.meta.searchedTo, rows.length)}
      {data !== undefined && pager("attempts", cursor, data.meta.nextCursor)}
    </PageFrame>
  );
};
