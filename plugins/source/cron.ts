/** `cron({ schedule, event })` publishes an event at the times of a schedule, once over all nodes. */
import { isAsync, NOT_ASYNC } from "../../core/lib/at-once.ts";
import { isEventName, isKeyId } from "../../core/model/names.ts";
import { inside, must, optionProblems, text, type Rule } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { Source } from "../../core/ports/source.ts";
import type { CronOptions, Schedule } from "./cron/ticking.ts";
import { MESSAGE } from "./messages/plugin.ts";

/** Five or six fields of the letters that they may have; the rest is judged with the whole config (`Plugin.schedules`). */
const SCHEDULE = text("a cron expression", /^\s*(?:[\w*/,#-]+\s+){4,5}[\w*/,#-]+\s*$/);

const fields = inside({
  type: must("must be an event type", (type) => typeof type === "string" && isEventName(type)),
  keyId: must("must be a key id", (keyId) => typeof keyId === "string" && isKeyId(keyId)),
});

const event: Rule = (given, path) => {
  if (typeof given === "function") return isAsync(given) ? [{ path, message: NOT_ASYNC }] : [];
  if (typeof given !== "object" || given === null) return [{ path, message: "must be an event or a function" }];
  const { data, dataText } = given as CronOptions["event"] & { data?: unknown; dataText?: unknown };
  const missing = data === undefined && dataText === undefined;
  return [...fields(given, path), ...(missing ? [{ path: `${path}.data`, message: "is missing" }] : [])];
};

/**
 * Publishes `event` at each tick. The id of an event comes from its type and the time of the tick, so several nodes make one
 * event of a tick. A tick that cannot be stored is tried again until it is; one for which no relay runs is left out.
 */
export function cron(options: CronOptions): Plugin<"source", Source> {
  return cronOn(options);
}

/** @param schedule for tests, which cannot wait for a time of day */
export function cronOn(options: CronOptions, schedule?: Schedule): Plugin<"source", Source> {
  const problems = optionProblems<CronOptions>(options, { schedule: SCHEDULE, event, name: MESSAGE.name });
  return own({
    kind: "source",
    name: typeof options?.name === "string" ? options.name : "cron",
    ownName: true,
    problems,
    ...(problems.length === 0 && { schedules: { schedule: options.schedule } }),
    async setup(ctx) {
      const { startCron } = await import("./cron/ticking.ts");
      return startCron(ctx, options, schedule);
    },
  });
}
