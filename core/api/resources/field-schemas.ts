/** Schemas of single fields of requests: numbers with bounds that their messages name, retry policies, secrets of one's own. */
import { z } from "zod";
import { LEAST_DELAY_MS, LONGEST_SCHEDULE_MS, MOST_DELAYS, scheduleProblem } from "../../model/subscription.ts";
import { LONGEST_SECRET, secretProblem } from "../../model/signing-secret.ts";

/** A missing field is reported as missing; any other wrong value gets the given text. */
const saying = (text: string) => ({
  error: ({ input }: { readonly input?: unknown }): string => (input === undefined ? "is missing" : text),
});
export const number = (min: number, max: number) => {
  const text = saying(`must be a number from ${min} to ${max}`);
  return z.number(text).min(min, text).max(max, text);
};
export const whole = (min: number, max: number) => {
  const text = saying(`must be a whole number from ${min} to ${max}`);
  return z.int(text).min(min, text).max(max, text);
};

/** The retry policy of a subscription as a request gives it. */
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
    anyOf: [{ properties: { delaysMs: false } }, { required: ["delaysMs"], maxProperties: 1 }],
    description:
      "When a failed attempt is made again: a list of waits, or a backoff, of which what is left out is as the relay's config has it.",
  });

const FOUR = "(?:[A-Za-z0-9+/]{4})";
const [TWO, THREE] = ["[A-Za-z0-9+/]{2}==", "[A-Za-z0-9+/]{3}="];
/** 24 to 64 bytes. For the documentation: `secretProblem` decides. */
const FORM = `^whsec_(?:${FOUR}{8,20}(?:${TWO}|${THREE})?|${FOUR}{21}(?:${TWO})?)$`;

/** A signing secret of one's own as a request gives it. A value that is refused is never repeated. */
export const ownSecret = z
  .string()
  .superRefine((text, ctx) => {
    const message = secretProblem(text);
    if (message !== undefined) ctx.addIssue({ code: "custom", message });
  })
  .meta({
    maxLength: LONGEST_SECRET,
    pattern: FORM,
    description:
      "A signing secret of one's own, such as one that the receiver holds already: `whsec_` and base64 of 24 to 64 bytes. The relay makes one when it is left out. A secret that is given is not answered.",
  });
