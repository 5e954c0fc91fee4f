/** Shows the overview of a key: sums, charts, and the state of its subscriptions. */
import { useMemo, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { ChartCard, type ChartLine } from "../kit/chart.tsx";
import { PublishButton } from "../forms/publish-event.tsx";
import { NeedsAttention, useAttention } from "../kit/attention.tsx";
import { byWorst } from "../kit/health.tsx";
import { Choice, Select, useForm } from "../kit/fields.tsx";
import { count, duration, moment, share } from "../state/format.ts";
import { loadStats, nameOf } from "../state/api-keys.ts";
import { Button, Kept, notice, PageFrame, problem, showToast, skeleton, Submit } from "../kit/elements.tsx";
import { useEvery, useLoad } from "../state/load.ts";
import { isPortal } from "../state/page-facts.ts";
import { may } from "../state/token.ts";
import { spanQuery } from "../kit/filters.tsx";
import { refine, to } from "../state/route.ts";
import type { Chart, KeyDialogProps, OfKey, Range, Stats, ViewProps } from "../shapes.ts";
import { FirstSteps } from "./first-steps.tsx";
import { glanceTable } from "./subscriptions.tsx";
import { ask, path } from "../state/api.ts";
import { Dialog, Form } from "../kit/dialog.tsx";

export const RANGES = [
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
] as const;
const REFRESH_MS = 15_000;

export const Overview = ({ keyId, query }: ViewProps) => {
  const range = (RANGES.find(([one]) => one === query["range"])?.[0] ?? "1h") as Range;
  const only = query["sub"];
  const begun = useRef(false);
  const { data, error, again } = useLoad(
    (signal) => loadStats(keyId, range, only, signal),
    [keyId, range, only],
    ({ event }) => {
      // The first event on a quiet page shows at once; a stream of them is loaded from time to time.
      if (begun.current && event !== "subscription") return REFRESH_MS;
      begun.current = true;
      return 1_000;
    },
  );
  // Time goes on where nothing happens: what was an hour ago leaves the hour.
  useEvery(again, data?.stepMs ?? REFRESH_MS);
  const [linking, setLinking] = useState(false);
  const attention = useAttention(keyId);
  return (
    <PageFrame
      title="Overview"
      kicker={<code>{keyId}</code>}
      actions={[
        data !== undefined && data.subscriptions.length > 1 && (
          <Select
            label="Subscription"
            bare
            value={only ?? ""}
            options={[["", "All subscriptions"], ...data.subscriptions.map((one) => [one.id, nameOf(one)] as const)]}
            change={(sub) => refine({ sub })}
          />
        ),
        <PublishButton keyId={keyId} />,
        may("link") && <Button text="Portal link…" act={() => setLinking(true)} />,
        <Choice label="Range" value={range} options={RANGES} change={(next) => refine({ range: next })} />,
      ]}
    >
      {linking && <PortalLink keyId={keyId} close={() => setLinking(false)} />}
      {problem(error, again)}
      {data !== undefined && data.subscriptions.length > 0 && <NeedsAttention load={attention} />}
      {data === undefined ? error === undefined && skeleton() : <Shown keyId={keyId} data={data} only={only} />}
    </PageFrame>
  );
};

/** @param list the address of what it counts */
const tile = (name: string, value: string, list?: string, more?: string) => (
  <div class="tile">
    <dt>{name}</dt>
    <dd>
      {list === undefined ? (
        value
      ) : (
        <a href={list} aria-label={`${name}: ${value}`}>
          {value}
        </a>
      )}
      {more !== undefined && <small>{more}</small>}
    </dd>
  </div>
);

interface ShownProps extends OfKey {
  readonly data: Stats;
  readonly only: string | undefined;
}

const Shown = ({ keyId, data, only }: ShownProps) => {
  const { totals, subscriptions, range: time } = data;
  const shown = only === undefined ? subscriptions : subscriptions.filter(({ id }) => id === only);
  const backlog = shown.reduce((sum, one) => sum + one.figures.backlog, 0);
  const range = { sub: only, time };
  const events = (delivery?: string): string => to(["k", keyId, "events"], { ...range, delivery });
  const pending = to(["k", keyId, "events"], { sub: only, delivery: "pending" });
  const capped = shown.some((one) => one.figures.backlog >= 1_000);
  const worst = subscriptions.toSorted(byWorst);
  const span = RANGES.find(([one]) => one === time)?.[1];
  const rated = `of ${count(totals.attempts)} attempts`;
  const attempts = to(["k", keyId, "attempts"], range);
  return (
    <div class="stack">
      {subscriptions.length === 0 && <FirstSteps keyId={keyId} />}
      <dl class="tiles">
        {tile("Events accepted", count(totals.accepted), events())}
        {tile("Delivered", count(totals.delivered), events("delivered"), "deliveries")}
        {tile("Failed", count(totals.failed), events("failed"), "deliveries")}
        {tile("Success rate", share(totals.delivered, totals.attempts), attempts, rated)}
        {tile("Latency p50", duration(totals.p50Ms), undefined, `p99 ${duration(totals.p99Ms)}`)}
        {tile("Pending now", `${count(backlog)}${capped ? "+" : ""}`, pending, `deliveries${capped ? " or more" : ""}`)}
      </dl>
      {(only === undefined ? Charts : OwnCharts)({ data, list: listOf(keyId, only), pending: backlog })}
      {subscriptions.length > 0 && [<h2>Subscriptions</h2>, glanceTable(keyId, worst, span, data.subscriptionsLeft)]}
    </div>
  );
};

const REFUSALS = [
  ["RATE_LIMIT_EXCEEDED", "c-blue", false],
  ["BURST_EXCEEDED", "c-amber", false],
  ["PROVIDER_BACKPRESSURE", "c-violet", true],
  ["ABUSE_SUSPEND", "c-red", true],
] as const;

const codesOf = ({ series, totals }: Chart): readonly ChartLine[] =>
  REFUSALS.map(([name, colour, dashed]) => {
    const sum = count(totals.refused[name] ?? 0);
    return { name, values: series.refused[name] ?? [], colour, dashed, sum };
  });

type ListOf = (view: "events" | "attempts", from: number, to: number) => string;
/** Leads to the list of what happened in a part of a chart. */
export const listOf =
  (keyId: string, sub?: string): ListOf =>
  (view, from, until) =>
    to(["k", keyId, view], { sub, ...spanQuery(from, until) });

export const Charts = (props: Omit<OwnProps, "more">) => {
  const { data } = props;
  const lines = useMemo(() => codesOf(data), [data]);
  // How often programs of the operator were refused is no customer's business.
  if (isPortal) return <OwnCharts {...props} />;
  return <OwnCharts {...props} more={<ChartCard title="Refused requests (429)" chart={data} lines={lines} />} />;
};

interface OwnProps {
  readonly data: Chart;
  readonly list?: ListOf | undefined;
  readonly more?: VNode;
  /** How much is pending now: the chart only knows the last full minute. */
  readonly pending?: number | undefined;
}

/** Those of one subscription: the relay refuses requests of a key, not of a subscription. */
export const OwnCharts = ({ data, list, more, pending }: OwnProps) => {
  const { series, totals } = data;
  const last = pending ?? series.backlog.at(-1) ?? 0;
  const all = useMemo(
    () => ({
      events: [
        { name: "accepted", values: series.accepted, colour: "c-blue", sum: count(totals.accepted) },
        { name: "delivered", values: series.delivered, colour: "c-green", sum: count(totals.delivered) },
        { name: "failed", values: series.failed, colour: "c-red", dashed: true, sum: count(totals.failed) },
      ],
      latency: [
        { name: "p50", values: series.p50Ms, colour: "c-blue", sum: duration(totals.p50Ms) },
        { name: "p99", values: series.p99Ms, colour: "c-amber", dashed: true, sum: duration(totals.p99Ms) },
      ],
      backlog: [{ name: "pending", values: series.backlog, colour: "c-violet", sum: count(last) }],
    }),
    [data, last],
  );
  const leads = (view: Parameters<ListOf>[0]) => list && ((from: number, until: number) => list(view, from, until));
  const { events, latency, backlog } = all;
  return (
    <div class={more === undefined ? "charts three" : "charts"}>
      <ChartCard title="Events and deliveries" chart={data} lines={events} list={leads("events")} />
      <ChartCard title="Latency of attempts" chart={data} lines={latency} format={duration} list={leads("attempts")} />
      <ChartCard title="Backlog" chart={data} lines={backlog} />
      {more}
    </div>
  );
};

interface Made {
  readonly url: string;
  readonly expiresAt: string;
}

const ACCESS = [
  ["manage", "look, and change subscriptions"],
  ["read", "only look"],
] as const;
const LASTING = [
  ["900", "15 minutes"],
  ["3600", "1 hour"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
] as const;

const PortalLink = ({ keyId, close }: KeyDialogProps) => {
  const [made, setMade] = useState<Made | undefined>(undefined);
  const route = path("/api-keys/{}/portal-links", [keyId]);
  const form = useForm({ access: "manage", lasts: "3600" }, async ({ access, lasts }, _, what: "make" | "end") => {
    if (what === "make") {
      const body = { access, expiresInSeconds: Number(lasts) };
      return setMade((await ask<Made>("POST", route, { body })).data);
    }
    await ask("DELETE", route);
    setMade(undefined);
    showToast("All links of this key are ended");
  });
  return (
    <Dialog title="A link for your customer" close={close}>
      <Form submit={() => form.run(undefined, "make")}>
        <p>It opens a page with this key alone. Your customer needs no account.</p>
        <Select {...form.of("access", "The customer may")} options={ACCESS} />
        <Select {...form.of("lasts", "It opens for")} options={LASTING} />
        {made !== undefined &&
          notice(
            "warn",
            <p>{`Anyone who has it may use it, until ${moment(made.expiresAt)}. It is shown only this once.`}</p>,
            <Kept text={new URL(made.url, location.href).href} what="the link" />,
          )}
        {problem(form.error)}
        <div class="row end">
          <Button text="End all links" off={form.busy} act={(event) => form.run(event, "end")} />
          <Submit text={made === undefined ? "Make the link" : "Make another"} busy={form.busy} />
        </div>
      </Form>
    </Dialog>
  );
};
