/**
 * Counts one metric: a plain number for each set of labels, in a map with a bound.
 *
 * prom-client is not used: it takes 0.5 µs for a value where this takes 0.1, 1.4 % of an event with its twelve values, and
 * loading its counter, gauge, histogram and registry takes 25 ms of CPU, 7 % of a start (in turns, on one machine).
 */
import type { MetricRow } from "./metric-table.ts";

export interface MetricCell {
  readonly labels: Readonly<Record<string, string>>;
  /** Counter or gauge; the sum of a histogram. */
  value: number;
  /** Of a histogram: how many values fell into each bucket and, last, above all of them. */
  readonly buckets: number[];
}

export class Cells {
  readonly row: MetricRow;
  readonly #labels: readonly string[];
  readonly #most: number;
  readonly #cells = new Map<string, MetricCell>();

  constructor(row: MetricRow) {
    this.row = row;
    this.#labels = row.labels ?? [];
    this.#most = row.series ?? 16;
    // A metric without labels is at zero from the start: "nothing happened" is not "nothing is known".
    if (this.#labels.length === 0) this.#make("", {});
    for (const value of row.known ?? []) this.#make(value, { [this.#labels[0] as string]: value });
  }

  at(labels: Readonly<Record<string, string>> | undefined): MetricCell {
    const names = this.#labels;
    let key = names.length === 0 ? "" : (labels?.[names[0] as string] ?? "");
    for (let i = 1; i < names.length; i++) key += `\u0000${labels?.[names[i] as string] ?? ""}`;
    const cell = this.#cells.get(key);
    if (cell !== undefined) return cell;
    const isOther = this.#cells.size >= this.#most;
    const made = names.map((name) => [name, isOther ? "other" : textOf(labels?.[name])]);
    return (isOther && this.#cells.get("other")) || this.#make(isOther ? "other" : key, Object.fromEntries(made));
  }

  all(): Iterable<MetricCell> {
    return this.#cells.values();
  }

  #make(key: string, labels: Readonly<Record<string, string>>): MetricCell {
    const made = {
      labels,
      value: 0,
      buckets: Array.from({ length: (this.row.buckets?.length ?? -1) + 1 }, () => 0),
    };
    this.#cells.set(key, made);
    return made;
  }
}

/** Longest value of a label. */
const LONGEST = 200;

/** A label's value as it is written: plug-ins may pass anything. */
const textOf = (value: string | undefined): string => String(value ?? "").slice(0, LONGEST);
