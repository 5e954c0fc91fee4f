/** Lists the attempts of a key over all its events: what receivers answered, newest event first. */
import { answerBadge } from "./answer.ts";
import { ask, path } from "./api.ts";
import { pager, table } from "./data-table.ts";
import { el, part } from "./dom.ts";
import { eventLink, typeName } from "./cut.ts";
import { empty, PageFrame, problem, skeleton, TimeSwitch, When } from "./elements.ts";
import { useLoad } from "./load.ts";
import { Filters, periodOf } from "./filters.ts";
import { duration } from "./format.ts";
import { useNames } from "./known-names.ts";
import { to } from "./route.ts";
import { lookedBack, Search, searched } from "./search.ts";
import type { FoundAttempt } from "./shapes.ts";

interface AttemptsProps {
  readonly keyId: string;
  readonly query: Readonly<Record<string, string>>;
}

const PAGE = 25;

export const Attempts = part(({ keyId, query }: AttemptsProps) => {
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
  return PageFrame({
    title: "Attempts",
    kicker: el.code(null, keyId),
    actions: [TimeSwitch({}), el.button({ type: "button", onClick: again }, "Look again")],
    children: [
      Filters({ query, statuses: [], keyId }),
      Search({ query, attempts: true, key: JSON.stringify(searched(query)) }),
      problem(error, again),
      rows.length === 0 && loading && skeleton(),
      data !== undefined &&
        !loading &&
        rows.length === 0 &&
        empty(
          data.meta.searchedTo === undefined ? "No attempt here" : "Nothing found so far",
          "Each request to a receiver is listed here with its answer.",
        ),
      rows.length > 0 &&
        el.div(
          { "aria-busy": loading },
          table(
            "Attempts",
            ["Answer", "Took", "To", "Event", "Type", "At"],
            rows.map((one) => ({
              key: one.id,
              cells: [
                answerBadge(one),
                el.span({ class: "figure" }, duration(one.durationMs)),
                el.a(
                  {
                    class: "receiver",
                    title: name(one.subscriptionId),
                    href: to(["k", keyId, "subscriptions", one.subscriptionId, "deliveries"]),
                  },
                  name(one.subscriptionId),
                ),
                eventLink(keyId, one.eventId, true),
                typeName(one.type),
                When({ at: one.startedAt }),
              ],
            })),
            true,
          ),
        ),
      rows.length < PAGE && lookedBack(data?.meta.searchedTo, rows.length),
      data !== undefined && pager("attempts", cursor, data.meta.nextCursor),
    ],
  });
});
