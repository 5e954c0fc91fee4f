/** Lists the subscriptions of a key, with their health at a glance. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { count } from "../state/format.ts";
import { loadStats } from "../state/api-keys.ts";
import { HealthText } from "../kit/health.tsx";
import { cutUrl } from "../kit/cut.tsx";
import { badge, empty, PageFrame, problem, skeleton, TimeSwitch, When } from "../kit/elements.tsx";
import { useCalm, useLive, useLoad } from "../state/load.ts";
import { may } from "../state/may.ts";
import { place, refine, to } from "../state/route.ts";
import type { Glance } from "../shapes.ts";
import { table } from "../kit/data-table.tsx";
import { SubscriptionForm } from "../forms/subscription-form.tsx";

export const SubscriptionList = ({ keyId }: { readonly keyId: string }) => {
  const { data, error, again } = useLoad((signal) => loadStats(keyId, "24h", undefined, signal), [keyId]);
  const [making, setMaking] = useState(may("change") && place.now.query["new"] === "yes");
  const soon = useCalm(again, 1_000);
  const later = useCalm(again, 15_000);
  useLive(({ event }) => (event === "subscription" || event === "again" ? soon() : later()));
  const create = may("change") && (
    <button type="button" class="main" onClick={() => setMaking(true)}>
      Create subscription
    </button>
  );
  return (
    <PageFrame title="Subscriptions" kicker={<code>{keyId}</code>} actions={[<TimeSwitch />, create]}>
      {problem(error, again) ?? (data === undefined && skeleton())}
      {data !== undefined &&
        (data.subscriptions.length === 0
          ? empty(
              "No subscription yet",
              "Give a URL and the names of the events that you want there. The relay signs each delivery, so that you can be sure where it comes from.",
              create,
            )
          : glanceTable(keyId, data.subscriptions, undefined, data.subscriptionsLeft))}
      {making && (
        <SubscriptionForm
          keyId={keyId}
          close={() => {
            setMaking(false);
            refine({ new: undefined });
          }}
          saved={() => {
            setMaking(false);
            refine({ new: undefined });
            again();
          }}
        />
      )}
    </PageFrame>
  );
};

/**
 * @param span the time of its figures, in words
 * @param left how many more there are
 */
export function glanceTable(keyId: string, all: readonly Glance[], span = "24 hours", left = 0): VNode {
  const columns = ["Endpoint", "Events", `Health, last ${span.replace("1 ", "")}`, "Pending", "Last delivery"];
  const listed = table(
    "Subscriptions",
    columns,
    all.map((one) => ({
      key: one.id,
      cells: [
        <span class="endpoint">
          <a
            href={to(["k", keyId, "subscriptions", one.id])}
            class={one.description && "name"}
            title={one.description}
            aria-label={one.description ?? one.url.replace(/^https:\/\//, "")}
          >
            {one.description ?? cutUrl(one.url)}
          </a>
          {one.description !== undefined && <small>{cutUrl(one.url)}</small>}
        </span>,
        <span class="names">
          {one.events.slice(0, 3).map((name) => (
            <code key={name}>{name}</code>
          ))}
          {one.events.length > 3 && <small>{`and ${one.events.length - 3} more`}</small>}
        </span>,
        <HealthText one={one} />,
        <a class="figure" href={to(["k", keyId, "subscriptions", one.id, "deliveries"], { status: "pending" })}>
          {one.figures.backlog >= 1_000 ? "1,000+" : count(one.figures.backlog)}
        </a>,
        one.lastDelivery === undefined ? (
          <span class="quiet">none yet</span>
        ) : (
          <span>
            {badge(one.lastDelivery.status)}
            <small>
              <When at={one.lastDelivery.at} />
            </small>
          </span>
        ),
      ],
    })),
  );
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
