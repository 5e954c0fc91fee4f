/** Lists the subscriptions of a key, with their health at a glance. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { el, part } from "./dom.ts";
import { count, reason, share } from "./format.ts";
import { loadStats } from "./api-keys.ts";
import { badge, empty, PageFrame, problem, skeleton, useCalm, useLive, useLoad, useNow, When } from "./elements.ts";
import { place, refine, to } from "./route.ts";
import { SecretOnce } from "./secret.ts";
import type { Glance, Secreted } from "./shapes.ts";
import { table } from "./data-table.ts";
import { SubscriptionForm } from "./subscription-form.ts";

export const SubscriptionList = part(({ keyId }: { readonly keyId: string }) => {
  const { data, error, again } = useLoad((signal) => loadStats(keyId, "24h", undefined, signal), [keyId]);
  const [making, setMaking] = useState(place.now.query["new"] === "yes");
  const [made, setMade] = useState<Secreted | undefined>(undefined);
  const soon = useCalm(again, 1_000);
  const later = useCalm(again, 15_000);
  useLive(({ event }) => (event === "subscription" || event === "again" ? soon() : later()));
  const create = el.button({ type: "button", class: "main", onClick: () => setMaking(true) }, "Create subscription");
  return PageFrame({
    title: "Subscriptions",
    kicker: el.code(null, keyId),
    actions: create,
    children: [
      problem(error),
      data === undefined && error === undefined && skeleton(),
      data !== undefined &&
        (data.subscriptions.length === 0
          ? empty(
              "No subscription yet",
              "Give a URL and the names of the events that you want there. The relay signs each delivery, so that you can be sure where it comes from.",
              create,
            )
          : glanceTable(keyId, data.subscriptions)),
      making &&
        SubscriptionForm({
          keyId,
          close: () => {
            setMaking(false);
            refine({ new: undefined });
          },
          saved: (one) => {
            setMaking(false);
            refine({ new: undefined });
            setMade(one as Secreted);
            again();
          },
        }),
      made !== undefined && SecretOnce({ made, close: () => setMade(undefined) }),
    ],
  });
});

/** Shows its state in words: the worst of what is known comes first. */
export const HealthText = part(({ one }: { readonly one: Glance }): VNode => {
  const now = useNow();
  if (one.status === "disabled")
    return el.span(
      null,
      badge("disabled"),
      one.disabledReason !== undefined && el.small(null, reason(one.disabledReason)),
    );
  if (one.restsUntil !== undefined && Date.parse(one.restsUntil) > now)
    return el.span(
      null,
      badge("paused"),
      el.small(
        null,
        `after ${count(one.failuresInARow)} failures in a row; tried again `,
        When({ at: one.restsUntil }),
      ),
    );
  if (one.failuresInARow > 0)
    return el.span(null, badge("failing"), el.small(null, `${count(one.failuresInARow)} failed in a row`));
  if (one.lastDelivery === undefined) return badge("idle");
  if (one.lastDelivery.status === "failed")
    return el.span(null, badge("failing"), el.small(null, "the last delivery failed"));
  return badge("healthy");
});

export function glanceTable(keyId: string, all: readonly Glance[]): VNode {
  const columns = ["Endpoint", "Events", "Health", "Attempts that succeeded", "Pending", "Last delivery"];
  return table(
    "Subscriptions",
    columns,
    all.map((one) => ({
      key: one.id,
      cells: [
        el.span(
          { class: "endpoint" },
          el.a({ href: to(["k", keyId, "subscriptions", one.id]) }, one.url.replace(/^https:\/\//, "")),
          one.description !== undefined && el.small(null, one.description),
        ),
        el.span(
          { class: "names" },
          ...one.events.slice(0, 3).map((name) => el.code({ key: name }, name)),
          one.events.length > 3 && el.small(null, `and ${one.events.length - 3} more`),
        ),
        HealthText({ one }),
        el.span(
          { class: "figure" },
          share(one.figures.delivered, one.figures.attempts),
          el.small(null, `of ${count(one.figures.attempts)}`),
        ),
        el.span({ class: "figure" }, one.figures.backlog >= 1_000 ? "1,000+" : count(one.figures.backlog)),
        one.lastDelivery === undefined
          ? el.span({ class: "quiet" }, "none yet")
          : el.span(null, badge(one.lastDelivery.status), el.small(null, When({ at: one.lastDelivery.at }))),
      ],
    })),
  );
}
