/** The first page for those who own several API keys: what happened on each of them in the last 24 hours. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { pager, table } from "../kit/data-table.tsx";
import { PageFrame, problem, skeleton } from "../kit/elements.tsx";
import { useEvery, useLoad } from "../state/load.ts";
import { count, duration, shareOf } from "../state/format.ts";
import { to } from "../state/route.ts";
import { KeyForm } from "../shell.tsx";
import { token } from "../state/token.ts";

interface ListedKey {
  readonly id: string;
  readonly figures?: {
    readonly accepted: number;
    readonly delivered: number;
    readonly failed: number;
    readonly attempts: number;
    readonly p50Ms: number | null;
  };
}

const PAGE = "25";
const REFRESH_MS = 60_000;

export const AllKeys = () => {
  const [cursor, setCursor] = useState<string | undefined>(undefined);
  const { data, error, again } = useLoad(
    (signal) =>
      ask<readonly ListedKey[]>("GET", path("/api-keys", [], { range: "24h", limit: PAGE, cursor }), { signal }),
    [cursor],
  );
  useEvery(again, REFRESH_MS);
  const owned = token.now?.keys ?? [];
  const listed = data?.data ?? [];
  // Keys of the token that nobody has used yet.
  const unused =
    owned === "*" || cursor !== undefined ? [] : owned.filter((id) => !listed.some((one) => one.id === id));
  const rows: readonly ListedKey[] = [...listed, ...unused.map((id) => ({ id }))];
  return (
    <PageFrame title="API keys" kicker="The last 24 hours">
      {problem(error, again) ?? (data === undefined && skeleton())}
      {data !== undefined &&
        rows.length > 0 &&
        table(
          "API keys",
          ["Key", "Events accepted", "Delivered", "Failed", "Success rate", "Latency p50"],
          rows.map(({ id, figures }) => ({
            key: id,
            cells: [
              <a href={to(["k", id, "overview"])} class="id">
                {id}
              </a>,
              number(id, figures?.accepted, {}),
              number(id, figures?.delivered, { status: "delivered" }),
              number(id, figures?.failed, { status: "failed" }),
              figures === undefined ? "–" : shareOf(figures.delivered, figures.attempts),
              duration(figures?.p50Ms),
            ],
          })),
        )}
      {data !== undefined && pager("API keys", cursor, data.meta.nextCursor, setCursor, ["First", "More"])}
      {data !== undefined && (
        <div class="card">
          <h2>{rows.length === 0 ? "No API key is in use yet" : "Another key"}</h2>
          <p>
            Subscriptions and events belong to an API key. A key exists as soon as someone names it: enter its id to
            begin.
          </p>
          <KeyForm />
        </div>
      )}
    </PageFrame>
  );
};

/** A figure that leads to the list of what it counts. */
const number = (keyId: string, value: number | undefined, query: Readonly<Record<string, string>>) =>
  value === undefined ? (
    "–"
  ) : (
    <a class="figure" href={to(["k", keyId, "events"], { ...query, time: "24h" })}>
      {count(value)}
    </a>
  );
