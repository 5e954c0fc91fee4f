/** Shows one subscription: its settings, its state, and the actions on it. */
import { count, duration, moment, shareOf } from "../state/format.ts";
import { loadStats, nameOf } from "../state/api-keys.ts";
import { parted } from "../kit/cut.tsx";
import { badge, empty, line, notice, PageFrame, problem, skeleton, When } from "../kit/elements.tsx";
import { useCalm, useEvery, useLive, useLoad } from "../state/load.ts";
import { FilterTest, filterText, toFilterTest } from "../forms/filter-test.tsx";
import { TransformTest } from "../forms/transform-test.tsx";
import { OrderCard, orderText } from "../forms/order.tsx";
import { to } from "../state/route.ts";
import type { Chart, Glance } from "../shapes.ts";
import { listOf, OwnCharts } from "./overview.tsx";
import { useSubscriptionMenu } from "./subscription-menu.tsx";
import { trail } from "../kit/trail.tsx";
import { TestEvent } from "../forms/test-event.tsx";
import { VerifyCode } from "../kit/verify-code.tsx";
import { HealthText } from "../kit/health.tsx";

interface ViewProps {
  readonly keyId: string;
  readonly id: string;
}

/** Length of a step in the figures of a day, ms. */
const STEP_MS = 600_000;

export const tabs = (keyId: string, id: string, on: "settings" | "deliveries") => (
  <nav class="tabs" aria-label="Of this subscription">
    <a href={to(["k", keyId, "subscriptions", id])} aria-current={on === "settings" ? "page" : undefined}>
      Settings
    </a>
    <a
      href={to(["k", keyId, "subscriptions", id, "deliveries"])}
      aria-current={on === "deliveries" ? "page" : undefined}
    >
      Deliveries
    </a>
  </nav>
);

export const SubscriptionView = ({ keyId, id }: ViewProps) => {
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
    return (
      <PageFrame title="Subscription" kicker={trail(keyId, "subscriptions", "Subscriptions", id)}>
        {data === undefined
          ? [problem(error, again), error === undefined && skeleton()]
          : empty(
              "There is no such subscription",
              "It may have been deleted.",
              <a class="button" href={to(["k", keyId, "subscriptions"])}>
                All subscriptions
              </a>,
            )}
      </PageFrame>
    );
  }
  return <Open keyId={keyId} one={one} chart={data} again={again} error={error} />;
};

const Open = ({
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
  return (
    <PageFrame
      title={nameOf(one)}
      kicker={trail(keyId, "subscriptions", "Subscriptions", one.id)}
      actions={menu.buttons}
    >
      {tabs(keyId, one.id, "settings")}
      {problem(error, again)}
      {problem(menu.error)}
      {!active &&
        notice(
          "warn",
          <p>
            Nothing is sent while it is disabled. Events that match are kept as failed, and can be replayed once it is
            enabled again.
          </p>,
        )}
      <div class="two">
        <Standing keyId={keyId} one={one} />
        <Settings one={one} />
      </div>
      <h2>Charts of the last 24 hours</h2>
      <OwnCharts data={chart} list={listOf(keyId, one.id)} pending={one.figures.backlog} />
      <TestEvent keyId={keyId} id={one.id} />
      {one.ordered === true && <OrderCard keyId={keyId} one={one} />}
      <FilterTest keyId={keyId} one={one} />
      {one.transform !== undefined && <TransformTest keyId={keyId} one={one} />}
      <section class="card">
        <h2>Verify what is sent</h2>
        <VerifyCode />
      </section>
      {menu.dialogs}
    </PageFrame>
  );
};

const Standing = ({ keyId, one }: { readonly keyId: string; readonly one: Glance }) => {
  const list = (status: string, text: string) => (
    <a href={to(["k", keyId, "subscriptions", one.id, "deliveries"], { status })}>{text}</a>
  );
  const { figures, lastDelivery } = one;
  return (
    <section class="card" aria-labelledby="standing">
      <h2 id="standing">Last 24 hours</h2>
      <dl>
        {line("Health", <HealthText one={one} brief />)}
        {line("Success rate", shareOf(figures.delivered, figures.attempts))}
        {line("Failed deliveries", list("failed", count(figures.failed)))}
        {figures.filtered > 0 &&
          line(
            "Left out",
            `${count(figures.filtered)} by the filter: `,
            // The address after `#` is the view's: the jump is made by hand.
            <button type="button" class="plain" onClick={toFilterTest}>
              test it on an event
            </button>,
          )}
        {line("Latency", `p50 ${duration(figures.p50Ms)}, p99 ${duration(figures.p99Ms)}`)}
        {line("Pending now", list("pending", figures.backlog >= 1_000 ? "1,000 or more" : count(figures.backlog)))}
        {line(
          "Last delivery",
          lastDelivery === undefined ? "none yet" : [badge(lastDelivery.status), " ", <When at={lastDelivery.at} />],
        )}
        {one.failingSince !== undefined && line("Failing since", <When at={one.failingSince} />)}
      </dl>
    </section>
  );
};

const Settings = ({ one }: { readonly one: Glance }) => (
  <section class="card" aria-labelledby="settings">
    <h2 id="settings">Settings</h2>
    <dl>
      {line("URL", <span class="wrap">{parted(one.url)}</span>)}
      {line(
        "Events",
        <span class="names">
          {one.events.map((name) => (
            <code key={name}>{name}</code>
          ))}
        </span>,
      )}
      {one.filter !== undefined && line("Filter", <pre tabIndex={0}>{filterText(one.filter)}</pre>)}
      {one.transform !== undefined && line("Transform", <code>{one.transform}</code>)}
      {one.description !== undefined && line("Description", one.description)}
      {line("Order", orderText(one))}
      {line(
        "Rate limit",
        one.rateLimit === undefined ? "as fast as it answers" : `at most ${one.rateLimit.perSecond} a second`,
      )}
      {line("Time-out", one.timeoutMs === undefined ? "the default" : duration(one.timeoutMs))}
      {line(
        "Retries",
        one.retry === undefined
          ? "the default"
          : "delaysMs" in one.retry
            ? `after ${one.retry.delaysMs.map(duration).join(", ")}`
            : `${one.retry.attempts} attempts, first wait ${duration(one.retry.firstDelayMs)}, then ${one.retry.factor} times the last, at most ${duration(one.retry.maxDelayMs)}`,
      )}
      {one.headers !== undefined &&
        line(
          "Custom headers",
          <span class="names">
            {Object.keys(one.headers).map((name) => (
              <code key={name}>{name}</code>
            ))}
          </span>,
        )}
      {one.clientCertificate !== undefined &&
        line(
          "Client certificate",
          <span class="wrap">
            {`${one.clientCertificate.subject}, until ${one.clientCertificate.notAfter.slice(0, 10)}`}
          </span>,
        )}
      {one.oauth2 !== undefined &&
        line("OAuth 2", <span class="wrap">{`${one.oauth2.clientId} at ${one.oauth2.tokenUrl}`}</span>)}
      {one.createdAt !== undefined && line("Created", moment(one.createdAt))}
    </dl>
  </section>
);
