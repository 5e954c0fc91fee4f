/** Shows one subscription: its settings, its state, and the actions on it. */
import { backlogText, count, duration, moment, shareOf } from "../state/format.ts";
import { loadStats, nameOf } from "../state/api-keys.ts";
import { parted, trail } from "../kit/cut.tsx";
import { badge, Button, Card, codes, empty, line, link, notice } from "../kit/elements.tsx";
import { PageFrame, problem, skeleton, When } from "../kit/elements.tsx";
import { useEvery, useLoad } from "../state/load.ts";
import { FilterTest, filterText, TestEvent, toFilterTest, TransformTest } from "../forms/testers.tsx";
import { OrderCard, orderText } from "../forms/order.tsx";
import { to } from "../state/route.ts";
import type { Chart, Glance, OneProps, OfKey } from "../shapes.ts";
import { listOf, OwnCharts } from "./overview.tsx";
import { useSubscriptionMenu } from "../forms/subscription-actions.tsx";
import { VerifyCode } from "../kit/verify-code.tsx";
import { NeedsAttention, useAttention } from "../kit/attention.tsx";
import { HealthText } from "../kit/health.tsx";

/** Length of a step in the figures of a day, ms. */
const STEP_MS = 600_000;

export const tabs = (keyId: string, id: string, on: "Settings" | "Deliveries") => {
  const own = ["k", keyId, "subscriptions", id];
  const tab = (text: string, parts: readonly string[]) => (
    <a href={to(parts)} aria-current={text === on ? "page" : undefined}>
      {text}
    </a>
  );
  return (
    <nav class="tabs" aria-label="Of this subscription">
      {tab("Settings", own)}
      {tab("Deliveries", [...own, "deliveries"])}
    </nav>
  );
};

export const SubscriptionView = ({ keyId, id }: OneProps) => {
  const { data, error, again } = useLoad(
    (signal) => loadStats(keyId, "24h", id, signal),
    [keyId, id],
    (message) => {
      if (message.event === "again" || (message.event === "subscription" && message.data.id === id)) return 500;
      return message.event === "attempt" && message.data.subscriptionId === id && 10_000;
    },
  );
  useEvery(again, data?.stepMs ?? STEP_MS);
  const one = data?.subscriptions.find((each) => each.id === id);
  if (data !== undefined && one !== undefined)
    return <Open keyId={keyId} one={one} chart={data} again={again} error={error} />;
  const all = link(to(["k", keyId, "subscriptions"]), "All subscriptions", "button");
  return (
    <PageFrame title="Subscription" kicker={trail(keyId, "subscriptions", id)}>
      {data === undefined
        ? [problem(error, again), error === undefined && skeleton()]
        : empty("There is no such subscription", "It may have been deleted.", all)}
    </PageFrame>
  );
};

interface GlanceProps extends OfKey {
  readonly one: Glance;
}

interface OpenProps extends GlanceProps {
  readonly chart: Chart;
  readonly again: () => void;
  readonly error: unknown;
}

const Open = ({ keyId, one, chart, again, error }: OpenProps) => {
  const menu = useSubscriptionMenu(keyId, one, again);
  return (
    <PageFrame title={nameOf(one)} kicker={trail(keyId, "subscriptions", one.id)} actions={menu.buttons}>
      {tabs(keyId, one.id, "Settings")}
      {problem(error, again)}
      {problem(menu.error)}
      <NeedsAttention load={useAttention(keyId, one.id)} one />
      {one.status !== "active" &&
        notice(
          "warn",
          <p>
            Nothing is sent while it is disabled. Events that match are kept as failed, and can be replayed once it is
            enabled again.
          </p>,
        )}
      {one.lastDelivery === undefined && <TestEvent keyId={keyId} id={one.id} />}
      <div class="two">
        <Standing keyId={keyId} one={one} />
        <Settings one={one} />
      </div>
      <h2>Charts of the last 24 hours</h2>
      <OwnCharts data={chart} list={listOf(keyId, one.id)} pending={one.figures.backlog} />
      {one.lastDelivery !== undefined && <TestEvent keyId={keyId} id={one.id} />}
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

const Standing = ({ keyId, one }: GlanceProps) => {
  const list = (status: string, text: string) =>
    link(to(["k", keyId, "subscriptions", one.id, "deliveries"], { status }), text);
  const failed = { sub: one.id, delivery: "failed", time: "24h" };
  const { figures, lastDelivery: last } = one;
  // The address after `#` is the view's: the jump is made by hand.
  const test = <Button text="test it on an event" class="plain" act={toFilterTest} />;
  return (
    <Card id="standing" title="Last 24 hours">
      <dl>
        {line("Health", <HealthText one={one} brief />)}
        {line("Success rate", shareOf(figures.delivered, figures.attempts, "attempts"))}
        {line("Failed deliveries", link(to(["k", keyId, "events"], failed), count(figures.failed)))}
        {figures.filtered > 0 && line("Left out", `${count(figures.filtered)} by the filter: `, test)}
        {line("Latency", `p50 ${duration(figures.p50Ms)}, p99 ${duration(figures.p99Ms)}`)}
        {line("Pending now", list("pending", backlogText(figures.backlog, " or more")))}
        {line("Last delivery", last === undefined ? "none yet" : [badge(last.status), " ", <When at={last.at} />])}
        {one.failingSince !== undefined && line("Failing since", <When at={one.failingSince} />)}
      </dl>
    </Card>
  );
};

const retriesText = ({ retry }: Glance): string => {
  if (retry === undefined) return "the default";
  if ("delaysMs" in retry) return `after ${retry.delaysMs.map(duration).join(", ")}`;
  const { attempts, firstDelayMs: first, factor, maxDelayMs: most } = retry;
  return `${attempts} attempts, first wait ${duration(first)}, then ${factor} times the last, at most ${duration(most)}`;
};

const Settings = ({ one }: { readonly one: Glance }) => {
  const { filter, transform, description, rateLimit, timeoutMs, headers, clientCertificate, oauth2, createdAt } = one;
  const wrapped = (text: string) => <span class="wrap">{text}</span>;
  return (
    <Card id="settings" title="Settings">
      <dl>
        {line("URL", <span class="wrap">{parted(one.url)}</span>)}
        {line("Events", codes(one.events))}
        {filter !== undefined && line("Filter", <pre tabIndex={0}>{filterText(filter)}</pre>)}
        {transform !== undefined && line("Transform", <code>{transform}</code>)}
        {description !== undefined && line("Description", description)}
        {line("Order", orderText(one))}
        {line("Rate limit", rateLimit ? `at most ${rateLimit.perSecond} a second` : "as fast as it answers")}
        {line("Time-out", timeoutMs === undefined ? "the default" : duration(timeoutMs))}
        {line("Retries", retriesText(one))}
        {headers !== undefined && line("Custom headers", codes(Object.keys(headers)))}
        {clientCertificate !== undefined &&
          line(
            "Client certificate",
            wrapped(`${clientCertificate.subject}, until ${clientCertificate.notAfter.slice(0, 10)}`),
          )}
        {oauth2 !== undefined && line("OAuth 2", wrapped(`${oauth2.clientId} at ${oauth2.tokenUrl}`))}
        {createdAt !== undefined && line("Created", moment(createdAt))}
      </dl>
    </Card>
  );
};
