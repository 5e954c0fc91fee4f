/** The first page for those who own several API keys: what happened on each of them in the last 24 hours. */
import { useState } from "preact/hooks";
import { path } from "../state/api.ts";
import { ListView } from "../kit/list.tsx";
import { link, PageFrame } from "../kit/elements.tsx";
import { useAsk, useEvery } from "../state/load.ts";
import { count, duration, shareOf } from "../state/format.ts";
import { to } from "../state/route.ts";
import { KeyForm } from "../shell.tsx";
import type { ListedKey, Query } from "../shapes.ts";
import { token } from "../state/token.ts";

const REFRESH_MS = 60_000;

export const AllKeys = () => {
  const [cursor, turn] = useState<string | undefined>(undefined);
  const load = useAsk<readonly ListedKey[]>(path("/api-keys", [], { range: "24h", limit: "25", cursor }));
  useEvery(load.again, REFRESH_MS);
  const { data } = load;
  const owned = token.now?.keys ?? [];
  const listed = data?.data ?? [];
  // Keys of the token that nobody has used yet.
  const unused =
    owned === "*" || cursor !== undefined ? [] : owned.filter((id) => !listed.some((one) => one.id === id));
  const rows: readonly ListedKey[] = [...listed, ...unused.map((id) => ({ id }))];
  return (
    <PageFrame title="API keys" kicker="The last 24 hours">
      <ListView
        name="API keys"
        load={load}
        rows={data === undefined ? [] : rows}
        keyOf={({ id }) => id}
        columns={{
          Key: ({ id }) => link(to(["k", id, "overview"]), id, "id"),
          "Events accepted": ({ id, figures }) => number(id, figures?.accepted, {}),
          Delivered: ({ id, figures }) => number(id, figures?.delivered, { status: "delivered" }),
          Failed: ({ id, figures }) => number(id, figures?.failed, { status: "failed" }),
          "Success rate": ({ figures }) => (figures ? shareOf(figures.delivered, figures.attempts) : "–"),
          "Latency p50": ({ figures }) => duration(figures?.p50Ms),
        }}
        cursor={cursor}
        turn={turn}
      />
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
const number = (keyId: string, value: number | undefined, query: Query) =>
  value === undefined ? "–" : link(to(["k", keyId, "events"], { ...query, time: "24h" }), count(value), "figure");
