/** `notify` of the config: where the relay sends its notices to its operator, and the bounds of backlogs. */
import { z } from "zod";
import { isEventPattern, OPERATIONAL } from "../core/model/names.ts";
import { NOTICE_TYPES } from "../core/model/notice.ts";
import { TRANSFORM_NAME } from "../core/model/transform.ts";
import type { Plan } from "../core/ports/plan.ts";
import { list, options, refuse, section, whole } from "./check-plan.ts";
import type { ConfigProblem } from "./problems.ts";

/** Each is a subscription, and gets an event of its own. */
const MOST_TARGETS = 10;
const LONGEST_URL = 2_048;

const url = z.custom<string>(
  (value) => typeof value === "string" && value.length <= LONGEST_URL && URL.canParse(value),
  `must be a URL of at most ${LONGEST_URL} characters`,
);
const pattern = z.custom<string>(
  (value) => typeof value === "string" && value.startsWith(OPERATIONAL) && isEventPattern(value),
  `must be an event name or pattern that begins with ${OPERATIONAL}`,
);
const transform = z.custom<string>(
  (value) => typeof value === "string" && TRANSFORM_NAME.test(value),
  "must be the name of a transform",
);

export const notify = options({
  to: list(
    section({
      url,
      events: list(pattern)
        .refine((value) => value.length > 0, "must name at least one")
        .optional(),
      transform: transform.optional(),
    }),
  ).superRefine((targets, ctx) => {
    if (targets.length > MOST_TARGETS) refuse(ctx, `must be at most ${MOST_TARGETS}`);
    for (const [i, one] of targets.entries())
      if (targets.findIndex((other) => other.url === one.url) < i) refuse(ctx, "is given more than once", i, "url");
  }),
  pending: whole(0, 1_000_000_000),
  pendingPerKey: whole(0, 1_000_000_000),
});

interface NotifySections {
  readonly notify?: z.output<typeof notify> | undefined;
  readonly intake?: Partial<Plan["intake"]> | undefined;
}

/** Half of a bound at which publishing is refused is time enough to do something. */
export function notifyOf({ notify: given = {}, intake = {} }: NotifySections): Plan["notify"] {
  const { to = [], pending, pendingPerKey } = given;
  return {
    to: to.map(({ events = NOTICE_TYPES, ...rest }) => ({ events, ...rest })),
    pending: pending ?? Math.ceil((intake.maxPending ?? 0) / 2),
    pendingPerKey: pendingPerKey ?? Math.ceil((intake.maxPendingPerKey ?? 0) / 2),
  };
}

/** Finds targets whose transform the config does not have. */
export const unknownTransforms = ({ notify: { to }, transforms }: Plan): ConfigProblem[] =>
  to.flatMap(({ transform }, i) =>
    transform === undefined || Object.hasOwn(transforms, transform)
      ? []
      : [{ path: `notify.to[${i}].transform`, message: "is not a transform of this config" }],
  );
