/** The shape of `notify`: where the relay sends its notices to its operator, and the bounds of backlogs. */
import { z } from "zod";
import { isEventPattern, OPERATIONAL } from "../core/model/names.ts";
import { TRANSFORM_NAME } from "../core/model/transform.ts";
import { list, section, whole } from "./check-plan.ts";

/** Each is a subscription, and gets an event of its own. */
const MOST = 10;
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

export const notify = section({
  to: list(
    section({
      url,
      events: list(pattern)
        .refine((value) => value.length > 0, "must name at least one")
        .optional(),
      transform: transform.optional(),
    }),
  )
    .superRefine((targets, ctx) => {
      const refuse = (path: (string | number)[], message: string): void =>
        ctx.addIssue({ code: "custom", path, message });
      if (targets.length > MOST) refuse([], `must be at most ${MOST}`);
      for (const [i, one] of targets.entries())
        if (targets.findIndex((other) => other.url === one.url) < i) refuse([i, "url"], "is given more than once");
    })
    .optional(),
  pending: whole(0, 1_000_000_000).optional(),
  pendingPerKey: whole(0, 1_000_000_000).optional(),
});
