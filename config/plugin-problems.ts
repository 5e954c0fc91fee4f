/** Checks what a config's plug-ins declare, over all of them: secrets that cannot be read, schedules, metrics, routes, names. */
import type { MetricDeclaration, Plugin } from "../core/ports/plugin.ts";
import type { Plan } from "../core/ports/plan.ts";
import { partNames } from "../core/runtime/compose/readiness.ts";
import { sameRoute } from "../core/lib/route-name.ts";
import { METRIC_TABLE, promName } from "../core/runtime/observability/metric-table.ts";
import { thrownText } from "../core/runtime/plugin/thrown.ts";
import { SecretOptions, secretProblems, type SecretSurroundings } from "../core/runtime/secret-options.ts";
import { didYouMean, type ConfigProblem } from "./problems.ts";

/** Every plug-in of a plan with its place in the config: `sources[0]`. */
export function pluginsOf(plan: Plan): readonly (readonly [place: string, plugin: Plugin<string, unknown>])[] {
  return [
    ["storage", plan.storage],
    ...plan.sources.map((one, i) => [`sources[${i}]`, one] as const),
    ...plan.transports.map((one, i) => [`transports[${i}]`, one] as const),
    ["auth", plan.auth],
    ...plan.observers.map((one, i) => [`observers[${i}]`, one] as const),
  ];
}

export function pluginProblems(
  plan: Plan,
  env: SecretSurroundings["env"],
  cronValid: (expression: string) => boolean,
): ConfigProblem[] {
  const found: ConfigProblem[] = [];
  const around = { env, configDir: plan.configDir };
  const declared = new Map<string, MetricDeclaration>();
  const owners = new Map<string, string>();
  for (const [place, plugin] of pluginsOf(plan)) {
    const add = (path: string, message: string): void =>
      void found.push({ path: `${place}${path.startsWith("[") ? "" : "."}${path}`, message });
    try {
      for (const { path, message } of secretProblems(plugin, around)) add(path, message);
      for (const { path, message } of said(plugin.fileProblems?.(plan.configDir))) add(path, message);
      for (const [path, schedule] of Object.entries(plugin.schedules ?? {}))
        if (!cronValid(schedule))
          add(path, `of the plug-in ${plugin.name} is no cron expression that can be run: ${schedule}`);
      const metrics = plugin.metrics ?? [];
      for (const { path, message } of metricProblems(plugin.kind, metrics)) add(`metrics${path}`, message);
      for (const [i, metric] of metrics.entries()) {
        const first = declared.get(metric.name) ?? metric;
        declared.set(metric.name, first);
        if (OWN_METRICS.has(metric.name)) add(`metrics[${i}].name`, "is a metric of the relay: count it undeclared");
        else if (shapeOf(first) !== shapeOf(metric))
          add(`metrics[${i}]`, `${metric.name} is declared in another way by another plug-in`);
      }
      const { name, once, routes = [] } = plugin;
      if (!Array.isArray(routes)) throw new TypeError("its routes are no list");
      for (const route of routes) {
        if (typeof route !== "string") throw new TypeError("a route of it is no text");
        const owner = owners.get(sameRoute(route));
        // That one which may be named only once is named twice is a problem already.
        if (owner !== undefined && !(once === true && owner === name))
          found.push({ path: place, message: `the plug-ins ${owner} and ${name} both serve ${route}` });
        owners.set(sameRoute(route), name);
      }
    } catch (error) {
      // Text of an exception may hold what the options hold.
      found.push({
        path: place,
        message: `the plug-in ${plugin.name} cannot be looked at: ${hidden(error, plugin, around)}`,
      });
    }
  }
  const parts = partNames(plan);
  for (const [i, name] of (plan.server.readyNeeds ?? []).entries()) {
    if (parts.includes(name)) continue;
    const message = `is no part of this config${didYouMean(name, parts)} (there are: ${parts.join(", ")})`;
    found.push({ path: `server.readyNeeds[${i}]`, message });
  }
  return found;
}

/** Returns the problems that a plug-in says it has. @throws TypeError when it is no list of texts with their places */
export function said(given: readonly ConfigProblem[] | undefined): readonly ConfigProblem[] {
  return (given ?? []).map(({ path, message }) => {
    if (typeof path !== "string" || typeof message !== "string") throw new TypeError("it says no { path, message }");
    return { path, message };
  });
}

/** Returns the text of what a plug-in throws, with its secret options masked. */
export function hidden(error: unknown, plugin: Plugin<string, unknown>, around: SecretSurroundings): string {
  const secrets = new SecretOptions(around);
  try {
    secrets.of(plugin);
  } catch {} // One that cannot be read cannot be in the text, and is a problem of its own.
  return secrets.hide(thrownText(error));
}

const OWN_METRICS: ReadonlySet<string> = new Set(
  Object.entries(METRIC_TABLE).map(([name, row]) => promName(name, row)),
);

const shapeOf = ({ type, help, labels = [], buckets, series }: MetricDeclaration): string =>
  JSON.stringify([type, help, labels, buckets, series]);

const METRIC_NAME = /^[a-z][a-z0-9_]{0,99}$/;
const METRIC_TYPES: readonly unknown[] = ["counter", "gauge", "histogram"];

/** Returns everything that is wrong with a plug-in's declarations of metrics. @param kind the kind of the plug-in */
export function metricProblems(kind: string, declarations: readonly MetricDeclaration[]): readonly ConfigProblem[] {
  const found: ConfigProblem[] = [];
  for (const [i, { name, type, help, labels = [], buckets, series = 16 }] of declarations.entries()) {
    const wrong = (field: string, message: string): void => void found.push({ path: `[${i}].${field}`, message });
    const begins = ["relay_plugin_", `relay_${kind}_`];
    if (!METRIC_NAME.test(name) || !begins.some((begin) => name.startsWith(begin)))
      wrong("name", `must begin with ${begins.join(" or ")}, and have lower-case letters, digits and _ only`);
    if (!METRIC_TYPES.includes(type)) wrong("type", "must be counter, gauge or histogram");
    if (type === "counter" && !name.endsWith("_total")) wrong("name", "of a counter must end in _total");
    if (typeof help !== "string" || help.trim() === "") wrong("help", "must be text, not empty");
    if (!labels.every((label) => METRIC_NAME.test(label) && label !== "le"))
      wrong("labels", "must be lower-case names");
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
