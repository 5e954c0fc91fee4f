/** Metrics that a plug-in declares for itself, and the check of them. */

/**
 * One metric of a plug-in. `PluginContext.metrics` counts it under the same name. `/metrics` shows it from the start on;
 * plug-ins that declare exactly the same metric share it.
 */
export interface MetricDeclaration {
  /** The whole name: `relay_plugin_` or `relay_<kind of the plug-in>_`, then lower case. A counter's ends in `_total`. */
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** One line on what it counts. */
  readonly help: string;
  readonly labels?: readonly string[];
  /** Upper bounds of a histogram, ascending. @default from 2.5 ms to 30 s, in seconds */
  readonly buckets?: readonly number[];
  /** Most sets of label values, 1 to 100; what comes beyond is counted under `other`. @default 16 */
  readonly series?: number;
}

interface FoundProblem {
  /** `[0].name` */
  readonly path: string;
  readonly message: string;
}

const NAME = /^[a-z][a-z0-9_]{0,99}$/;
const TYPES: readonly unknown[] = ["counter", "gauge", "histogram"];

/** Everything that is wrong with a plug-in's declarations. @param kind the kind of the plug-in */
export function metricProblems(kind: string, declarations: readonly MetricDeclaration[]): readonly FoundProblem[] {
  const found: FoundProblem[] = [];
  for (const [i, { name, type, help, labels = [], buckets, series = 16 }] of declarations.entries()) {
    const wrong = (field: string, message: string): void => void found.push({ path: `[${i}].${field}`, message });
    const begins = ["relay_plugin_", `relay_${kind}_`];
    if (!NAME.test(name) || !begins.some((begin) => name.startsWith(begin)))
      wrong("name", `must begin with ${begins.join(" or ")}, and have lower-case letters, digits and _ only`);
    if (!TYPES.includes(type)) wrong("type", "must be counter, gauge or histogram");
    if (type === "counter" && !name.endsWith("_total")) wrong("name", "of a counter must end in _total");
    if (typeof help !== "string" || help.trim() === "") wrong("help", "must be text, not empty");
    if (!labels.every((label) => NAME.test(label) && label !== "le")) wrong("labels", "must be lower-case names");
    if (buckets !== undefined && (type !== "histogram" || !isAscending(buckets)))
      wrong("buckets", "must be ascending numbers, of a histogram");
    if (!Number.isInteger(series) || series < 1 || series > 100)
      wrong("series", "must be a whole number from 1 to 100");
  }
  return found;
}

const isAscending = (bounds: readonly number[]): boolean =>
  bounds.length > 0 &&
  bounds.every((bound, i) => Number.isFinite(bound) && (i === 0 || bound > (bounds[i - 1] as number)));
