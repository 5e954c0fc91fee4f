/** Lists the subscriptions of a key, with their health at a glance. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { backlogText, count } from "../state/format.ts";
import { loadStats } from "../state/api-keys.ts";
import { HealthText } from "../kit/health.tsx";
import { cutUrl } from "../kit/cut.tsx";
import { badge, Button, codes, empty, link, PageFrame, problem, skeleton, TimeSwitch, When } from "../kit/elements.tsx";
import { useLoad } from "../state/load.ts";
import { may } from "../state/token.ts";
import { place, refine, to } from "../state/route.ts";
import type { Glance, OfKey } from "../shapes.ts";
import { table } from "../kit/list.tsx";
import { SubscriptionForm } from "../forms/subscription-form.tsx";

export const SubscriptionList = ({ keyId }: OfKey) => {
  const { data, error, again } = useLoad(
    (signal) => loadStats(keyId, "24h", undefined, signal),
    [keyId],
    ({ event }) => (event === "subscription" || event === "again" ? 1_000 : 15_000),
  );
  const [making, setMaking] = useState(may("change") && place.now.query["new"] === "yes");
  const close = (): void => {
    setMaking(false);
    refine({ new: undefined });
  };
  const saved = (): void => {
    close();
    again();
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
        data.subscriptions.length > 0 &&
        glanceTable(keyId, data.subscriptions, undefined, data.subscriptionsLeft)}
      {making && <SubscriptionForm keyId={keyId} close={close} saved={saved} />}
    </PageFrame>
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
