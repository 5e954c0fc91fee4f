/** The retry policy of a subscription as a request gives it. */
import { z } from "zod";
import { LEAST_DELAY_MS, LONGEST_SCHEDULE_MS, MOST_DELAYS, scheduleProblem } from "../../model/subscription.ts";
import { number, whole } from "./number-fields.ts";

export const retry = z
  .strictObject({
    attempts: whole(1, 5).optional(),
    firstDelayMs: whole(10, 3_600_000).optional(),
    factor: number(1, 10).optional(),
    maxDelayMs: whole(10, 86_400_000).optional(),
    delaysMs: z
      .array(whole(LEAST_DELAY_MS, LONGEST_SCHEDULE_MS))
      .min(1)
      .max(MOST_DELAYS)
      .optional()
      .meta({
        description:
          "The wait after each attempt but the last, instead of all other fields; together at most three days.",
        examples: [[5_000, 300_000, 1_800_000, 7_200_000]],
      }),
  })
  .superRefine((given, ctx) => {
    const message = scheduleProblem(given);
    if (message !== undefined) ctx.addIssue({ code: "custom", path: ["delaysMs"], message });
  })
  .meta({
    description:
      "When a failed attempt is made again: a list of waits, or a backoff, of which what is left out is as the relay's config has it.",
  });
