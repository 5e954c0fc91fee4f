/** `cron({ schedule, event })` publishes an event at the times of a schedule, once over all nodes. */
import { refuseOptions } from "../../core/model/errors.ts";
import { unknownOptions } from "../../core/model/field-errors.ts";
import { isAsync, NOT_ASYNC } from "../../core/model/at-once.ts";
import { isEventName, isKeyId } from "../../core/model/names.ts";
import type { FieldError } from "../../core/model/problem.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import type { CronOptions } from "./cron/options.ts";
import type { Schedule } from "./cron/ticking.ts";
import { messageProblems } from "./messages/options.ts";

export type { CronOptions } from "./cron/options.ts";

const OWN: readonly (keyof CronOptions)[] = ["schedule", "event", "name"];
/** Five or six fields of the letters that they may have; the rest is judged with the whole config (`Plugin.schedules`). */
const EXPRESSION = /^\s*(?:[\w*/,#-]+\s+){4,5}[\w*/,#-]+\s*$/;

/**
 * Publishes `event` at each tick. The id of an event comes from its type and the time of the tick, so several nodes make one
 * event of a tick. A tick that cannot be stored is tried again until it is; one for which no relay runs is left out.
 */
export function cron(options: CronOptions): Plugin<"source", Source> {
  return cronOn(options);
}

/** @param schedule for tests, which cannot wait for a time of day */
export function cronOn(options: CronOptions, schedule?: Schedule): Plugin<"source", Source> {
  const problems = problemsOf(options);
  return {
    kind: "source",
    name: typeof options?.name === "string" ? options.name : "cron",
    ownName: true,
    problems,
    ...(problems.length === 0 && { schedules: { schedule: options.schedule } }),
    async setup(ctx) {
      refuseOptions(problems);
      const { startCron } = await import("./cron/ticking.ts");
      return startCron(ctx, options, schedule);
    },
  };
}

function problemsOf(options: CronOptions | undefined): readonly FieldError[] {
  const { schedule, event, name } = options ?? ({} as CronOptions);
  const found: FieldError[] = [...unknownOptions(options ?? {}, OWN), ...messageProblems({ name }, [])];
  if (typeof schedule !== "string" || !EXPRESSION.test(schedule))
    found.push({ path: "schedule", message: "must be a cron expression" });
  if (typeof event === "function") return isAsync(event) ? [...found, { path: "event", message: NOT_ASYNC }] : found;
  if (typeof event !== "object" || event === null)
    return [...found, { path: "event", message: "must be an event or a function" }];
  if (typeof event.type !== "string" || !isEventName(event.type))
    found.push({ path: "event.type", message: "must be an event type" });
  if (typeof event.keyId !== "string" || !isKeyId(event.keyId))
    found.push({ path: "event.keyId", message: "must be a key id" });
  if (event.data === undefined && event.dataText === undefined)
    found.push({ path: "event.data", message: "is missing" });
  return found;
}
