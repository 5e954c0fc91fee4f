/** Shows the figures of several relays under several loads, with a column for each relay. */
import { round } from "./bench-run.ts";
import { median, percentile } from "./process.ts";
import type { Turn } from "./rounds.ts";

/** Medians of the rounds of a relay. */
export interface Figures {
  readonly relay: string;
  readonly acceptedPerSecond: number;
  /** Until the last one arrived. */
  readonly eventsPerSecond: number;
  readonly least: number;
  readonly most: number;
  /** While there was still being published. */
  readonly deliveredPerSecond: number;
  readonly cpuMicrosecondsPerEvent: number;
  /** From reading the 202 until the delivery was received. */
  readonly lagMs: { readonly p50: number; readonly p99: number };
  /** To each of the others, round by round. */
  readonly to: Readonly<Record<string, { readonly rate: number; readonly cpu: number }>>;
}

const ratios = ({ to }: Figures, of: "rate" | "cpu"): string => {
  const all = Object.entries(to).map(([name, ratio]) => `${ratio[of]} × ${name}`);
  return all.length === 0 ? "" : ` (${all.join("; ")})`;
};
const ROWS = {
  accepted: ["accepted/s", (one: Figures) => `${one.acceptedPerSecond}`],
  delivered: ["delivered/s", (one: Figures) => `${one.eventsPerSecond}${ratios(one, "rate")}`],
  meanwhile: ["delivered/s", (one: Figures) => `${one.deliveredPerSecond}`],
  cpu: ["µs CPU an event", (one: Figures) => `${one.cpuMicrosecondsPerEvent}${ratios(one, "cpu")}`],
  lag: ["accept → receiver, p50 / p99 ms", ({ lagMs: { p50, p99 } }: Figures) => `${p50} / ${p99}`],
} as const;
export type Row = keyof typeof ROWS;

/** @param others the rounds of those that it is compared with, by name */
export function figuresOf(
  relay: string,
  own: readonly Turn[],
  others: Readonly<Record<string, readonly Turn[]>>,
): Figures {
  const middle = (figure: (one: Turn) => number, digits = 0): number => round(median(own.map(figure)), digits);
  const rates = own.map(({ eventsPerSecond }) => round(eventsPerSecond));
  const ratio = (of: readonly Turn[], figure: "eventsPerSecond" | "cpu"): number =>
    round(median(own.map((one, i) => one[figure] / (of[i]?.[figure] ?? Number.NaN))), 2);
  return {
    relay,
    acceptedPerSecond: middle((one) => one.acceptedPerSecond),
    eventsPerSecond: middle((one) => one.eventsPerSecond),
    least: Math.min(...rates),
    most: Math.max(...rates),
    deliveredPerSecond: middle((one) => one.deliveredPerSecond),
    cpuMicrosecondsPerEvent: middle((one) => one.cpu, 1),
    lagMs: {
      p50: middle((one) => percentile(one.fromAccepted, 50), 2),
      p99: middle((one) => percentile(one.fromAccepted, 99), 2),
    },
    to: Object.fromEntries(
      Object.entries(others).map(([name, of]) => [name, { rate: ratio(of, "eventsPerSecond"), cpu: ratio(of, "cpu") }]),
    ),
  };
}

export interface Table {
  readonly relays: readonly { readonly name: string; readonly startMs: number; readonly busyRssMb: number }[];
  readonly phases: readonly {
    readonly title: string;
    readonly rows: readonly Row[];
    readonly figures: readonly Figures[];
  }[];
}

export function tableOf({ phases, relays }: Table): string {
  const names = relays.map(({ name }) => name);
  const lines: (readonly string[])[] = [["", ...names]];
  for (const { title, rows, figures } of phases) {
    lines.push([title]);
    for (const row of rows) {
      const [label, text] = ROWS[row];
      const of = (name: string): string =>
        figures
          .filter(({ relay }) => relay === name)
          .map(text)
          .join("");
      lines.push([`  ${label}`, ...names.map(of)]);
    }
  }
  lines.push(["start → first 200 of /healthz, ms", ...relays.map(({ startMs }) => `${startMs}`)]);
  lines.push(["resident memory after it, MB", ...relays.map(({ busyRssMb }) => `${busyRssMb}`)]);
  const widths = ["", ...names].map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)) + 2);
  const textOf = (line: readonly string[]): string => line.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("");
  return lines.map((line) => textOf(line).trimEnd()).join("\n");
}
