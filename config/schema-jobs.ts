/** The shape of a job in the config. */
import { z } from "zod";
import type { Job } from "../core/ports/plan.ts";
import { isEventPattern, isKeyId } from "../core/model/names.ts";
import { removesAny } from "../core/retention/options.ts";
import { ms, number, pass, refuse, section, whole, YEARS_MS } from "./check-plan.ts";

/** @param cronValid says whether a cron expression can be run */
export function job(cronValid: (expression: string) => boolean): z.ZodType<Job> {
  const schedule = z.custom<string>(
    (value) => typeof value === "string" && cronValid(value),
    'must be a cron expression, such as "*/15 * * * *" (UTC)',
  );
  const head = { kind: z.literal("job", { error: "must be made by a factory, such as replay()" }), schedule };
  // Duplicate ids are recognised for a day at least, so nothing is removed sooner.
  const kept = ms(86_400_000, YEARS_MS).optional();
  const replay = section({
    ...head,
    name: z.literal("replay"),
    olderThanMs: ms(0, YEARS_MS),
    maxAgeMs: ms(1_000, YEARS_MS),
    maxReplays: whole(1, 99_999),
    limit: whole(1, 1_000_000),
    perSecond: number(0.01, 10_000),
  }).refine((value) => value.olderThanMs < value.maxAgeMs, {
    path: ["olderThanMs"],
    message: "must be less than maxAgeMs, or nothing is ever replayed",
  });
  const retention = section({
    ...head,
    name: z.literal("retention"),
    deliveredAfterMs: kept,
    failedAfterMs: kept,
    keys: rules(kept, isKeyId, "is no id of an API key"),
    types: rules(kept, isEventPattern, "is no pattern of event names"),
  }).refine(removesAny, "removes nothing: give it deliveredAfterMs or failedAfterMs, or leave it out");
  return z.unknown().transform((value, ctx): Job => {
    const name = typeof value === "object" && value !== null ? (value as { name?: unknown }).name : undefined;
    if (name !== "replay" && name !== "retention") {
      refuse(ctx, "must be a job, such as replay() or retention()");
      return z.NEVER;
    }
    const result: z.ZodSafeParseResult<Job> = (name === "replay" ? replay : retention).safeParse(value);
    if (result.success) return result.data;
    pass(result.error, ctx, []);
    return z.NEVER;
  });
}

type Rule = NonNullable<Extract<Job, { name: "retention" }>["keys"]>[string];

/** Rules by key or pattern. */
function rules(
  kept: z.ZodType<number | undefined>,
  isName: (name: string) => boolean,
  fault: string,
): z.ZodType<Readonly<Record<string, Rule>> | undefined> {
  const age = z.unknown().superRefine((value, ctx) => {
    if (value === false || kept.safeParse(value).success) return;
    refuse(ctx, "must be a whole number of milliseconds, a day at least, or false");
  }) as unknown as z.ZodType<number | false | undefined>;
  const rule = section({ deliveredAfterMs: age.optional(), failedAfterMs: age.optional() });
  return z
    .record(z.string(), rule, { error: "must be an object: { … }" })
    .superRefine((all, ctx) => {
      for (const name of Object.keys(all)) if (!isName(name)) refuse(ctx, fault, name);
    })
    .optional() as z.ZodType<Readonly<Record<string, Rule>> | undefined>;
}
