/** The first page for those who own several API keys: what happened on each of them in the last 24 hours. */
import { useState } from "preact/hooks";
import { path } from "../state/api.ts";
import { ListView } from "../kit/list.tsx";
import { NeedsAttention, useAttention } from "../kit/attention.tsx";
import { badge, link, PageFrame } from "../kit/elements.tsx";
import { useCell } from "../state/cell.ts";
import { useAsk, useEvery } from "../state/load.ts";
import { count, duration, shareOf } from "../state/format.ts";
import { to } from "../state/route.ts";
import { KeyForm } from "../shell.tsx";
import type { ListedKey, Query } from "../shapes.ts";
import { token } from "../state/token.ts";

const REFRESH_MS = 60_000;

export const AllKeys = () => (useCell(token)?.keys === "*" ? <EveryKey /> : <KeyList />);
const EveryKey = () => <KeyList attention={useAttention()} />;

/** @param attention of the relay and all keys, for those who own every key */
const KeyList = ({ attention }: { readonly attention?: ReturnType<typeof useAttention> }) => {
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
      {attention !== undefined && <NeedsAttention load={attention} wide />}
      <ListView
        name="API keys"
        load={load}
        rows={data === undefined ? [] : rows}
        keyOf={({ id }) => id}
        columns={{
          Key: ({ id }) => link(to(["k", id, "overview"]), id, "id"),
          ...(attention && { "Needs attention": ({ id }: ListedKey) => attentionOf(id, attention.data) }),
          "Events accepted": ({ id, figures }) => number(id, figures?.accepted, {}),
          Delivered: ({ id, figures }) => number(id, figures?.delivered, { delivery: "delivered" }),
          Failed: ({ id, figures }) => number(id, figures?.failed, { delivery: "failed" }),
          "Success rate": ({ figures }) => (figures ? shareOf(figures.delivered, figures.attempts, "attempts") : "–"),
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

type Answer = ReturnType<typeof useAttention>["data"];
/** Says how much of a key needs attention that nobody has acknowledged: as far as the list goes. */
function attentionOf(keyId: string, answer: Answer) {
  const own = (answer?.data ?? []).filter((one) => one.keyId === keyId && one.acknowledged === undefined);
  const isWrong = own.some(({ severity }) => severity === "error");
  if (own.length === 0) return answer?.meta.nextCursor === undefined ? "nothing" : "–";
  return badge(isWrong ? "failing" : "degraded", count(own.length));
}

/** A figure that leads to the list of what it counts. */
const number = (keyId: string, value: number | undefined, query: Query) =>
  value === undefined ? "–" : link(to(["k", keyId, "events"], { ...query, time: "24h" }), count(value), "figure");
