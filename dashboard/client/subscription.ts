/** Shows one subscription: its settings, its state, and the actions on it. */
import { el, line, part } from "./dom.ts";
import { count, duration, moment, shareOf } from "./format.ts";
import { loadStats, nameOf } from "./api-keys.ts";
import { parted } from "./cut.ts";
import { badge, empty, notice, PageFrame, problem, skeleton, When } from "./elements.ts";
import { useCalm, useEvery, useLive, useLoad } from "./load.ts";
import { FilterTest, filterText, toFilterTest } from "./filter-test.ts";
import { TransformTest } from "./transform-test.ts";
import { OrderCard, orderText } from "./order.ts";
import { to } from "./route.ts";
import type { Chart, Glance } from "./shapes.ts";
import { listOf, OwnCharts } from "./overview.ts";
import { useSubscriptionMenu } from "./subscription-menu.ts";
import { trail } from "./trail.ts";
import { TestEvent } from "./test-event.ts";
import { VerifyCode } from "./verify-code.ts";
import { HealthText } from "./health.ts";

interface ViewProps {
  readonly keyId: string;
  readonly id: string;
}

/** Length of a step in the figures of a day, ms. */
const STEP_MS = 600_000;

export const tabs = (keyId: string, id: string, on: "settings" | "deliveries") =>
  el.nav(
    { class: "tabs", "aria-label": "Of this subscription" },
    el.a(
      { href: to(["k", keyId, "subscriptions", id]), "aria-current": on === "settings" ? "page" : undefined },
      "Settings",
    ),
    el.a(
      {
        href: to(["k", keyId, "subscriptions", id, "deliveries"]),
        "aria-current": on === "deliveries" ? "page" : undefined,
      },
      "Deliveries",
    ),
  );

export const SubscriptionView = part(({ keyId, id }: ViewProps) => {
  const { data, error, again } = useLoad((signal) => loadStats(keyId, "24h", id, signal), [keyId, id]);
  const one = data?.subscriptions.find((each) => each.id === id);
  const soon = useCalm(again, 500);
  const later = useCalm(again, 10_000);
  useEvery(again, data?.stepMs ?? STEP_MS);
  useLive((message) => {
    if (message.event === "again" || (message.event === "subscription" && message.data.id === id)) soon();
    else if (message.event === "attempt" && message.data.subscriptionId === id) later();
  });
  if (data === undefined || one === undefined) {
    return PageFrame({
      title: "Subscription",
      kicker: trail(keyId, "subscriptions", "Subscriptions", id),
      children:
        data === undefined
          ? [problem(error, again), error === undefined && skeleton()]
          : empty(
              "There is no such subscription",
              "It may have been deleted.",
              el.a({ class: "button", href: to(["k", keyId, "subscriptions"]) }, "All subscriptions"),
            ),
    });
  }
  return Open({ keyId, one, chart: data, again, error });
});

const Open = part(
  ({
    keyId,
    one,
    chart,
    again,
    error,
  }: {
    readonly keyId: string;
    readonly one: Glance;
    readonly chart: Chart;
    readonly again: () => void;
    readonly error: unknown;
  }) => {
    const active = one.status === "active";
    const menu = useSubscriptionMenu(keyId, one, again);
    return PageFrame({
      title: nameOf(one),
      kicker: trail(keyId, "subscriptions", "Subscriptions", one.id),
      actions: menu.buttons,
      children: [
        tabs(keyId, one.id, "settings"),
        problem(error, again),
        problem(menu.error),
        !active &&
          notice(
            "warn",
            el.p(
              null,
              "Nothing is sent while it is disabled. Events that match are kept as failed, and can be replayed once it is enabled again.",
            ),
          ),
        el.div({ class: "two" }, Standing({ keyId, one }), Settings({ one })),
        el.h2(null, "Charts of the last 24 hours"),
        OwnCharts({ data: chart, list: listOf(keyId, one.id), pending: one.figures.backlog }),
        TestEvent({ keyId, id: one.id }),
        one.ordered === true && OrderCard({ keyId, one }),
        FilterTest({ keyId, one }),
        one.transform !== undefined && TransformTest({ keyId, one }),
        el.section({ class: "card" }, el.h2(null, "Verify what is sent"), VerifyCode({})),
        ...menu.dialogs,
      ],
    });
  },
);

const Standing = part(({ keyId, one }: { readonly keyId: string; readonly one: Glance }) => {
  const list = (status: string, text: string) =>
    el.a({ href: to(["k", keyId, "subscriptions", one.id, "deliveries"], { status }) }, text);
  const { figures, lastDelivery } = one;
  return el.section(
    { class: "card", "aria-labelledby": "standing" },
    el.h2({ id: "standing" }, "Last 24 hours"),
    el.dl(
      null,
      line("Health", HealthText({ one, brief: true })),
      line("Success rate", shareOf(figures.delivered, figures.attempts)),
      line("Failed deliveries", list("failed", count(figures.failed))),
      figures.filtered > 0 &&
        line(
          "Left out",
          `${count(figures.filtered)} by the filter: `,
          // The address after `#` is the view's: the jump is made by hand.
          el.button({ type: "button", class: "plain", onClick: toFilterTest }, "test it on an event"),
        ),
      line("Latency", `p50 ${duration(figures.p50Ms)}, p99 ${duration(figures.p99Ms)}`),
      line("Pending now", list("pending", figures.backlog >= 1_000 ? "1,000 or more" : count(figures.backlog))),
      line(
        "Last delivery",
        lastDelivery === undefined ? "none yet" : [badge(lastDelivery.status), " ", When({ at: lastDelivery.at })],
      ),
      one.failingSince !== undefined && line("Failing since", When({ at: one.failingSince })),
    ),
  );
});

const Settings = part(({ one }: { readonly one: Glance }) =>
  el.section(
    { class: "card", "aria-labelledby": "settings" },
    el.h2({ id: "settings" }, "Settings"),
    el.dl(
      null,
      line("URL", el.span({ class: "wrap" }, ...parted(one.url))),
      line("Events", el.span({ class: "names" }, ...one.events.map((name) => el.code({ key: name }, name)))),
      one.filter !== undefined && line("Filter", el.pre({ tabIndex: 0 }, filterText(one.filter))),
      one.transform !== undefined && line("Transform", el.code(null, one.transform)),
      one.description !== undefined && line("Description", one.description),
      line("Order", orderText(one)),
      line(
        "Rate limit",
        one.rateLimit === undefined ? "as fast as it answers" : `at most ${one.rateLimit.perSecond} a second`,
      ),
      line("Time-out", one.timeoutMs === undefined ? "the default" : duration(one.timeoutMs)),
      line(
        "Retries",
        one.retry === undefined
          ? "the default"
          : "delaysMs" in one.retry
            ? `after ${one.retry.delaysMs.map(duration).join(", ")}`
            : `${one.retry.attempts} attempts, first wait ${duration(one.retry.firstDelayMs)}, then ${one.retry.factor} times the last, at most ${duration(one.retry.maxDelayMs)}`,
      ),
      one.headers !== undefined &&
        line(
          "Custom headers",
          el.span({ class: "names" }, ...Object.keys(one.headers).map((name) => el.code({ key: name }, name))),
        ),
      one.clientCertificate !== undefined &&
        line(
          "Client certificate",
          el.span(
            { class: "wrap" },
            `${one.clientCertificate.subject}, until ${one.clientCertificate.notAfter.slice(0, 10)}`,
          ),
        ),
      one.oauth2 !== undefined &&
        line("OAuth 2", el.span({ class: "wrap" }, `${one.oauth2.clientId} at ${one.oauth2.tokenUrl}`)),
      one.createdAt !== undefined && line("Created", moment(one.createdAt)),
    ),
  ),
);
