/** Shows the overview of a key: sums, charts, and the state of its subscriptions. */
import { useMemo, useRef } from "preact/hooks";
import { ChartCard, type ChartLine } from "./chart.ts";
import { el, part } from "./dom.ts";
import { choice, Select } from "./fields.ts";
import { count, duration, share } from "./format.ts";
import { loadStats, nameOf } from "./api-keys.ts";
import { empty, PageFrame, problem, skeleton, useCalm, useLive, useLoad } from "./elements.ts";
import { refine, to } from "./route.ts";
import type { Chart, Range, Stats } from "./shapes.ts";
import { glanceTable } from "./subscriptions.ts";

interface OverviewProps {
  readonly keyId: string;
  readonly query: Readonly<Record<string, string>>;
}

export const RANGES = [
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
] as const;
const REFRESH_MS = 15_000;

export const Overview = part(({ keyId, query }: OverviewProps) => {
  const range = (RANGES.find(([one]) => one === query["range"])?.[0] ?? "1h") as Range;
  const only = query["sub"];
  const { data, error, again } = useLoad((signal) => loadStats(keyId, range, only, signal), [keyId, range, only]);
  const calm = useCalm(again, REFRESH_MS);
  const soon = useCalm(again, 1_000);
  const begun = useRef(false);
  useLive(({ event }) => {
    // The first event on a quiet page shows at once; a stream of them is loaded from time to time.
    if (begun.current && event !== "subscription") return calm();
    begun.current = true;
    soon();
  });
  return PageFrame({
    title: "Overview",
    kicker: el.code(null, keyId),
    actions: [
      data !== undefined &&
        data.subscriptions.length > 1 &&
        Select({
          label: "Subscription",
          bare: true,
          value: only ?? "",
          options: [["", "All subscriptions"], ...data.subscriptions.map((one) => [one.id, nameOf(one)] as const)],
          change: (sub) => refine({ sub }),
        }),
      choice({ label: "Range", value: range, options: RANGES, change: (next) => refine({ range: next }) }),
    ],
    children: [problem(error), data === undefined ? error === undefined && skeleton() : Shown({ keyId, data, only })],
  });
});

const tile = (name: string, value: string, more?: string) =>
  el.div({ class: "tile" }, el.dt(null, name), el.dd(null, value, more !== undefined && el.small(null, more)));

const Shown = part(
  ({ keyId, data, only }: { readonly keyId: string; readonly data: Stats; readonly only: string | undefined }) => {
    const { totals, subscriptions } = data;
    const shown = only === undefined ? subscriptions : subscriptions.filter(({ id }) => id === only);
    const backlog = shown.reduce((sum, one) => sum + one.figures.backlog, 0);
    const more = shown.some((one) => one.figures.backlog >= 1_000) ? "or more" : undefined;
    return el.div(
      { class: "stack" },
      el.dl(
        { class: "tiles" },
        tile("Events accepted", count(totals.accepted)),
        tile("Delivered", count(totals.delivered)),
        tile("Failed", count(totals.failed)),
        tile("Attempts that succeeded", share(totals.delivered, totals.attempts)),
        tile("Latency p50", duration(totals.p50Ms), `p99 ${duration(totals.p99Ms)}`),
        tile("Pending now", count(backlog), more),
      ),
      Charts({ data }),
      el.h2(null, "Subscriptions"),
      subscriptions.length === 0
        ? empty(
            "No subscription yet",
            "A subscription is a URL and the names of the events that are sent there.",
            el.a(
              { class: "button main", href: to(["k", keyId, "subscriptions"], { new: "yes" }) },
              "Create the first one",
            ),
          )
        : glanceTable(keyId, subscriptions),
    );
  },
);

export const codesOf = ({ series, totals }: Chart): readonly ChartLine[] =>
  (
    [
      ["RATE_LIMIT_EXCEEDED", "c-blue", false],
      ["BURST_EXCEEDED", "c-amber", false],
      ["PROVIDER_BACKPRESSURE", "c-violet", true],
      ["ABUSE_SUSPEND", "c-red", true],
    ] as const
  ).map(([code, colour, dashed]) => ({
    name: code,
    values: series.refused[code] ?? [],
    colour,
    dashed,
    sum: count(totals.refused[code] ?? 0),
  }));

export const Charts = part(({ data }: { readonly data: Chart }) => {
  const { series, totals } = data;
  const last = series.backlog.at(-1) ?? 0;
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
      codes: codesOf(data),
    }),
    [data],
  );
  return el.div(
    { class: "charts" },
    ChartCard({ title: "Events and deliveries", chart: data, lines: all.events }),
    ChartCard({ title: "Latency of attempts", chart: data, lines: all.latency, format: duration }),
    ChartCard({ title: "Backlog", chart: data, lines: all.backlog }),
    ChartCard({ title: "Refused requests (429)", chart: data, lines: all.codes }),
  );
});
