/** `relay stats`: the figures of an API key, of one of its subscriptions or of the whole relay, through the API. */
import { isoTime, parseTime } from "../../../core/lib/time.ts";
import { each, keyPath, type Shaped, shaped, withQuery } from "../../support/ask.ts";
import { type ApiAnswer, openApi } from "../../support/client.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION } from "../../support/command.ts";
import { EX_UNAVAILABLE, ExitError, usage } from "../../support/exit.ts";
import { fields, json, printTable, textOf } from "../../support/output.ts";

const COUNTS = ["accepted", "filtered", "attempts", "delivered", "failed"] as const;
/** Each of the series has a number a step, oldest first, or null. */
const CHART = {
  from: "text",
  stepMs: "number",
  series: { ...each(["any"], ...COUNTS, "p50Ms?", "p99Ms?", "backlog?"), "refused?": "map" },
  totals: { ...each("number", ...COUNTS), ...each("any", "p50Ms?", "p99Ms?"), "refused?": "map" },
} as const;
const HEADINGS = ["from", ...COUNTS, "refused", "p50 ms", "p99 ms", "backlog"];
const RANGES = ["1h", "24h", "7d"] as const;

const stats: Command = {
  usage: "stats",
  about: "show what happened on a key, or on the whole relay without --key: totals, and a line for each busy step",
  options: {
    "--key <key>": "id of the API key (all keys together)",
    "--subscription <id>": "of this one alone; refused requests are those of the key",
    "--range <range>": "of the last 1h, 24h or 7d, in steps of 1 min, 10 min or 1 h (1h)",
    ...JSON_OPTION,
    ...API_OPTIONS,
  },
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

/** Of the whole relay the chart is a part of its status. @throws ExitError 69 */
function chartOf(answer: ApiAnswer, given: Given) {
  const data = given.text("key") === undefined ? shaped(answer, { "figures?": "any" }).figures : answer.data;
  if (data === undefined) throw new ExitError(EX_UNAVAILABLE, "this relay keeps no stats");
  return shaped({ data }, CHART);
}

function totals({ totals: sums, series }: Shaped<typeof CHART>): string {
  const refused = Object.entries(sums.refused ?? {}).filter(([, count]) => count !== 0);
  return fields([
    ...COUNTS.map((name) => [name, shown(sums[name])] as const),
    ...refused.map(([code, count]) => [`refused ${code}`, shown(count)] as const),
    ["p50", `${shown(sums.p50Ms)} ms`],
    ["p99", `${shown(sums.p99Ms)} ms`],
    ["backlog", shown(series.backlog?.at(-1))],
  ]);
}

/** Returns a line for each step in which something was counted. */
function busySteps({ from, stepMs, series }: Shaped<typeof CHART>): readonly (readonly string[])[] {
  const start = parseTime(from) ?? 0;
  const refusals = Object.values(series.refused ?? {}) as readonly (readonly number[])[];
  return series.accepted.flatMap((_, i) => {
    const refused = refusals.reduce((sum, column) => sum + (column[i] ?? 0), 0);
    const counts = [...COUNTS.map((name) => series[name][i] ?? 0), refused];
    if (counts.every((count) => count === 0)) return [];
    const measured = [series.p50Ms, series.p99Ms, series.backlog].map((column) => shown(column?.[i]));
    return [[isoTime(start + i * stepMs), ...counts.map(String), ...measured]];
  });
}

const shown = (value: unknown): string => textOf(value ?? "–");

export const commands: readonly Command[] = [stats];
