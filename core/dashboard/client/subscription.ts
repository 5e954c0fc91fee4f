/** Shows one subscription: its settings, its state, and the actions on it. */
import { useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { el, part } from "./dom.ts";
import { count, duration, moment, share } from "./format.ts";
import { loadStats, nameOf } from "./api-keys.ts";
import {
  badge,
  Copy,
  empty,
  notice,
  PageFrame,
  problem,
  skeleton,
  showToast,
  useAction,
  useCalm,
  useLive,
  useLoad,
  When,
} from "./elements.ts";
import { FilterTest, filterText } from "./filter-test.ts";
import { OrderCard, orderText } from "./order.ts";
import { to } from "./route.ts";
import { SecretOnce } from "./secret.ts";
import type { Glance, Secreted } from "./shapes.ts";
import { DeleteSubscription, Rotate } from "./subscription-actions.ts";
import { TestEvent } from "./test-event.ts";
import { SubscriptionForm } from "./subscription-form.ts";
import { HealthText } from "./subscriptions.ts";
import type { ComponentChildren } from "preact";

interface ViewProps {
  readonly keyId: string;
  readonly id: string;
}

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
  const { data, error, again } = useLoad((signal) => loadStats(keyId, "24h", undefined, signal), [keyId, id]);
  const one = data?.subscriptions.find((each) => each.id === id);
  const soon = useCalm(again, 500);
  const later = useCalm(again, 10_000);
  useLive((message) => {
    if (message.event === "again" || (message.event === "subscription" && message.data.id === id)) soon();
    else if (message.event === "attempt" && message.data.subscriptionId === id) later();
  });
  if (data === undefined || one === undefined) {
    return PageFrame({
      title: "Subscription",
      kicker: el.code(null, id),
      children:
        data === undefined
          ? [problem(error), error === undefined && skeleton()]
          : empty(
              "There is no such subscription",
              "It may have been deleted.",
              el.a({ class: "button", href: to(["k", keyId, "subscriptions"]) }, "All subscriptions"),
            ),
    });
  }
  return Open({ keyId, one, again, error });
});

type Doing = "edit" | "rotate" | "delete";

const Open = part(
  ({
    keyId,
    one,
    again,
    error,
  }: {
    readonly keyId: string;
    readonly one: Glance;
    readonly again: () => void;
    readonly error: unknown;
  }) => {
    const [doing, setDoing] = useState<Doing | undefined>(undefined);
    const [secret, setSecret] = useState<Secreted | undefined>(undefined);
    const close = (): void => setDoing(undefined);
    const active = one.status === "active";
    const turn = useAction(async () => {
      await ask("PATCH", path("/api-keys/{}/webhooks/{}", [keyId, one.id]), {
        body: { status: active ? "disabled" : "active" },
      });
      showToast(active ? "Disabled" : "Enabled");
      again();
    });
    const button = (text: string, what: Doing, kind = "") =>
      el.button({ type: "button", class: kind, onClick: () => setDoing(what) }, text);
    return PageFrame({
      title: nameOf(one),
      kicker: [
        el.a({ href: to(["k", keyId, "subscriptions"]) }, "Subscriptions"),
        " / ",
        el.code(null, one.id),
        " ",
        Copy({ text: one.id, what: "the id" }),
      ],
      actions: [
        button("Edit", "edit"),
        el.button({ type: "button", disabled: turn.busy, onClick: turn.run }, active ? "Disable" : "Enable"),
        button("Rotate secret", "rotate"),
        button("Delete", "delete", "danger"),
      ],
      children: [
        tabs(keyId, one.id, "settings"),
        problem(error ?? turn.error),
        !active &&
          notice(
            "warn",
            el.p(
              null,
              "Nothing is sent while it is disabled. Events that match are kept as failed, and can be replayed once it is enabled again.",
            ),
          ),
        el.div({ class: "two" }, Standing({ one }), Settings({ one })),
        TestEvent({ keyId, id: one.id }),
        one.ordered === true && OrderCard({ keyId, one }),
        FilterTest({ keyId, one }),
        doing === "edit" &&
          SubscriptionForm({
            keyId,
            one,
            close,
            saved: () => {
              close();
              again();
            },
          }),
        doing === "rotate" &&
          Rotate({
            keyId,
            one,
            close,
            rotated: (made) => {
              close();
              setSecret(made);
            },
          }),
        doing === "delete" && DeleteSubscription({ keyId, one, close }),
        secret !== undefined && SecretOnce({ made: secret, close: () => setSecret(undefined) }),
      ],
    });
  },
);

const line = (name: string, ...value: ComponentChildren[]) =>
  el.div({ key: name }, el.dt(null, name), el.dd(null, ...value));

const Standing = part(({ one }: { readonly one: Glance }) => {
  const { figures, lastDelivery } = one;
  return el.section(
    { class: "card", "aria-labelledby": "standing" },
    el.h2({ id: "standing" }, "Last 24 hours"),
    el.dl(
      null,
      line("Health", HealthText({ one })),
      line("Attempts that succeeded", `${share(figures.delivered, figures.attempts)} of ${count(figures.attempts)}`),
      line("Failed deliveries", count(figures.failed)),
      line("Latency", `p50 ${duration(figures.p50Ms)}, p99 ${duration(figures.p99Ms)}`),
      line("Pending now", figures.backlog >= 1_000 ? "1,000 or more" : count(figures.backlog)),
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
      line("URL", el.span({ class: "wrap" }, one.url)),
      line("Events", el.span({ class: "names" }, ...one.events.map((name) => el.code({ key: name }, name)))),
      one.filter !== undefined && line("Filter", el.pre({ tabIndex: 0 }, filterText(one.filter))),
      one.transform !== undefined && line("Transform", el.code(null, one.transform)),
      one.description !== undefined && line("Description", one.description),
      line("Order", orderText(one)),
      line(
        "Pace",
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
