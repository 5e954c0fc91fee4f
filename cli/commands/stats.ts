/** `relay stats`: the figures of an API key, of one of its subscriptions or of the whole relay, through the API. */
import { isoTime, parseTime } from "../../core/lib/time.ts";
import { keyPath, withQuery } from "../support/api-path.ts";
import { type ApiAnswer, openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION } from "../support/command.ts";
import { EX_UNAVAILABLE, ExitError, usage } from "../support/exit.ts";
import { fields, json, printTable } from "../support/output.ts";
import { record } from "../support/response-shape.ts";

type Column = readonly (number | null)[];
type Sums = Readonly<Record<string, number | null>>;
interface Chart {
  readonly from: string;
  readonly stepMs: number;
  /** A number a step, oldest first. */
  readonly series: Readonly<Record<string, Column>> & { readonly refused?: Readonly<Record<string, Column>> };
  readonly totals: Sums & { readonly refused?: Sums };
}

const COUNTS = ["accepted", "filtered", "attempts", "delivered", "failed"] as const;
const HEADINGS = ["from", ...COUNTS, "refused", "p50 ms", "p99 ms", "backlog"];
const RANGES = ["1h", "24h", "7d"] as const;

const stats: Command = {
  usage: "stats",
  about: "show what happened on a key, or on the whole relay without --key: totals, and a line for each busy step",
  options: [
    { flags: "--key <key>", about: "id of the API key (all keys together)" },
    { flags: "--subscription <id>", about: "of this one alone; refused requests are those of the key" },
    { flags: "--range <range>", about: "of the last 1h, 24h or 7d, in steps of 1 min, 10 min or 1 h (1h)" },
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  examples: ["relay stats --key key_1 --range 24h", "relay stats --range 7d --json"],
  async run(given, io) {
    const path = statsPath(given);
    const answer = await (await openApi(given, io)).ask("GET", path);
    const chart = chartOf(answer, given);
    if (given.flag("json")) return io.print(json(chart));
    io.print(totals(chart));
    const lines = busySteps(chart);
    if (lines.length > 0) io.print(`\n${printTable(HEADINGS, lines)}`);
    else io.say("relay: nothing happened in that time");
  },
};

function statsPath(given: Given): string {
  const range = given.choice("range", RANGES) ?? "1h";
  const subscriptionId = given.text("subscription");
  if (given.text("key") !== undefined) return withQuery(keyPath(given, "stats"), { range, subscriptionId });
  if (subscriptionId !== undefined) throw usage("--subscription needs the --key that it belongs to");
  return withQuery("/relay/status", { range });
}

/** The shape of an answer that has each of the counts, of this kind. */
const everyCount = <K extends "list" | "number">(kind: K): Readonly<Record<string, K>> =>
  Object.fromEntries(COUNTS.map((name) => [name, kind]));

/** Of the whole relay the chart is a part of its status. @throws ExitError 69 */
function chartOf(answer: ApiAnswer, given: Given): Chart {
  const whole = given.text("key") === undefined;
  const data = whole ? record<{ readonly figures?: unknown }>(answer, {}).figures : answer.data;
  if (data === undefined) throw new ExitError(EX_UNAVAILABLE, "this relay keeps no stats");
  const chart = record<Chart>({ ...answer, data }, { from: "text", stepMs: "number" });
  record({ ...answer, data: chart.series }, everyCount("list"));
  record({ ...answer, data: chart.totals }, everyCount("number"));
  return chart;
}

function totals({ totals: sums, series }: Chart): string {
  const refused = Object.entries(sums.refused ?? {}).filter(([, count]) => count !== 0);
  return fields([
    ...COUNTS.map((name) => [name, shown(sums[name])] as const),
    ...refused.map(([code, count]) => [`refused ${code}`, shown(count)] as const),
    ["p50", `${shown(sums["p50Ms"])} ms`],
    ["p99", `${shown(sums["p99Ms"])} ms`],
    ["backlog", shown(series["backlog"]?.at(-1))],
  ]);
}

/** A line for each step in which something was counted. */
function busySteps({ from, stepMs, series }: Chart): readonly (readonly string[])[] {
  const start = parseTime(from) ?? 0;
  const refusals = Object.values(series.refused ?? {});
  return (series["accepted"] ?? []).flatMap((_, i) => {
    const refused = refusals.reduce((sum, column) => sum + (column[i] ?? 0), 0);
    const counts = [...COUNTS.map((name) => series[name]?.[i] ?? 0), refused];
    if (counts.every((count) => count === 0)) return [];
    const measured = ["p50Ms", "p99Ms", "backlog"].map((name) => shown(series[name]?.[i]));
    return [[isoTime(start + i * stepMs), ...counts.map(String), ...measured]];
  });
}

const shown = (value: number | null | undefined): string => String(value ?? "–");

export const commands: readonly Command[] = [stats];
