/** Lists the subscriptions of a key, with their health at a glance. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Choice, Select } from "../kit/fields.tsx";
import { backlogText, count } from "../state/format.ts";
import { loadStats, nameOf } from "../state/api-keys.ts";
import { NeedsAttention, useAttention } from "../kit/attention.tsx";
import { byWorst, HealthText, STATES, stateOf, stateWord } from "../kit/health.tsx";
import { cutUrl } from "../kit/cut.tsx";
import { badge, Button, codes, empty, link, PageFrame, problem, skeleton, TimeSwitch, When } from "../kit/elements.tsx";
import { useLoad } from "../state/load.ts";
import { may } from "../state/token.ts";
import { goFromHere, place, refine, to } from "../state/route.ts";
import type { Glance, Query, Subscription, ViewProps } from "../shapes.ts";
import { table } from "../kit/list.tsx";
import { SubscriptionForm } from "../forms/subscription-form.tsx";

/** Attempts that the strip of each shows. */
const RECENT = "50";

export const SubscriptionList = ({ keyId, query }: ViewProps) => {
  const { data, error, again } = useLoad(
    (signal) => loadStats(keyId, "24h", undefined, signal, RECENT),
    [keyId],
    ({ event }) => (event === "subscription" || event === "again" ? 1_000 : 15_000),
  );
  const attention = useAttention(keyId);
  const [making, setMaking] = useState(may("change") && place.now.query["new"] === "yes");
  const close = (): void => {
    setMaking(false);
    refine({ new: undefined });
  };
  const leave = goFromHere();
  const saved = ({ id }: Subscription): void => {
    close();
    leave(["k", keyId, "subscriptions", id]);
  };
  const create = may("change") && <Button text="Create subscription" class="main" act={() => setMaking(true)} />;
  return (
    <PageFrame title="Subscriptions" kicker={<code>{keyId}</code>} actions={[<TimeSwitch />, create]}>
      {problem(error, again) ?? (data === undefined && skeleton())}
      {data?.subscriptions.length === 0 &&
        empty(
          "No subscription yet",
          "Give a URL and the names of the events that you want there. The relay signs each delivery, so that you can be sure where it comes from.",
          create,
        )}
      {data !== undefined &&
        data.subscriptions.length > 0 && [
          <NeedsAttention key="attention" load={attention} />,
          <Sieve key="sieve" all={data.subscriptions} query={query} />,
          glanceTable(keyId, sieved(data.subscriptions, query), undefined, data.subscriptionsLeft),
        ]}
      {making && <SubscriptionForm keyId={keyId} close={close} saved={saved} />}
    </PageFrame>
  );
};

const byName = (one: Glance, other: Glance): number => (nameOf(one) < nameOf(other) ? -1 : 1);
/** In the order of the choice; the list comes in the order of creation. */
const ORDERS: readonly (readonly [name: string, text: string, by: (one: Glance, other: Glance) => number])[] = [
  ["", "Worst first", byWorst],
  ["pending", "Most pending first", (one, other) => other.figures.backlog - one.figures.backlog],
  ["name", "By name", byName],
  ["made", "As they were created", () => 0],
];

function sieved(all: readonly Glance[], { state, order = "" }: Query): readonly Glance[] {
  const [, , by] = ORDERS.find(([name]) => name === order) ?? ORDERS[0] ?? [];
  return all.filter((one) => state === undefined || stateOf(one) === state).toSorted(by);
}

/** Chooses by state, with how many there are of each, and orders the list. */
const Sieve = ({ all, query }: { readonly all: readonly Glance[]; readonly query: Query }) => {
  const found = STATES.map((state) => [state, all.filter((one) => stateOf(one) === state).length] as const);
  const some = found.filter(([state, many]) => many > 0 || state === query["state"]);
  const options = some.map(([state, many]) => [state, `${stateWord(state)} ${count(many)}`] as const);
  return (
    <div class="row">
      <Choice
        label="State"
        value={query["state"] ?? ""}
        options={[["", `All ${count(all.length)}`], ...options]}
        change={(state) => refine({ state })}
      />
      <Select
        label="Order"
        bare
        value={query["order"] ?? ""}
        options={ORDERS.map(([name, text]) => [name, text] as const)}
        change={(order) => refine({ order })}
      />
    </div>
  );
};

/**
 * @param span the time of its figures, in words
 * @param left how many more there are
 */
export function glanceTable(keyId: string, all: readonly Glance[], span = "24 hours", left = 0): VNode {
  const at = (one: Glance): readonly string[] => ["k", keyId, "subscriptions", one.id];
  const listed = table("Subscriptions", all, ({ id }) => id, {
    Endpoint: (one) => (
      <span class="endpoint">
        <a
          href={to(at(one))}
          class={one.description && "name"}
          title={one.description}
          aria-label={one.description ?? one.url.replace(/^https:\/\//, "")}
        >
          {one.description ?? cutUrl(one.url)}
        </a>
        {one.description !== undefined && <small>{cutUrl(one.url)}</small>}
      </span>
    ),
    Events: ({ events }) =>
      codes(events.slice(0, 3), events.length > 3 && <small>{`and ${events.length - 3} more`}</small>),
    [`Health, last ${span.replace("1 ", "")}`]: (one) => <HealthText one={one} />,
    Pending: (one) =>
      link(to([...at(one), "deliveries"], { status: "pending" }), backlogText(one.figures.backlog, "+"), "figure"),
    "Last delivery": ({ lastDelivery: last }) =>
      last === undefined ? (
        <span class="quiet">none yet</span>
      ) : (
        <span>
          {badge(last.status)}
          <small>
            <When at={last.at} />
          </small>
        </span>
      ),
  });
  if (left === 0) return listed;
  return (
    <div class="stack">
      {listed}
      <p class="quiet">
        {`${count(left)} more subscriptions are not listed: these had the most events and attempts. The API lists all of them.`}
      </p>
    </div>
  );
}
