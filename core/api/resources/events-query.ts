/** The queries of the lists of events and attempts: what is looked for, and which page. */
import { z } from "zod";
import { EVENT_NAME } from "../../model/names.ts";
import { paging } from "./schemas.ts";
import { isSpan, moment, NO_SPAN } from "./span.ts";
import { attemptErrors, eventStatuses } from "./statuses.ts";

const SAME_ATTEMPT =
  "`statusCode`, `error` and `minDurationMs` together mean one attempt, of the newest cycle of a delivery.";

/** A whole number in a query. */
const digits = (least: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,7}$/, `must be ${least} to ${most}`)
    .transform(Number)
    .refine((value) => value >= least && value <= most, `must be ${least} to ${most}`)
    .meta({ type: "integer", minimum: least, maximum: most, pattern: undefined });

/** What is asked of an attempt. */
const attempted = {
  statusCode: digits(100, 599)
    .optional()
    .meta({ description: `What an attempt was answered. ${SAME_ATTEMPT}` }),
  error: attemptErrors.optional().meta({ description: `The stage at which an attempt failed. ${SAME_ATTEMPT}` }),
  minDurationMs: digits(0, 3_600_000)
    .optional()
    .meta({ description: `How long an attempt took, in milliseconds, at least. ${SAME_ATTEMPT}` }),
};

export const eventsQuery = z
  .strictObject({
    status: eventStatuses.optional(),
    type: z.string().max(128).regex(EVENT_NAME, "must be one event name, without *").optional(),
    subscriptionId: z.string().max(64).optional(),
    since: moment.optional(),
    until: moment.optional(),
    id: z
      .string()
      .regex(/^[A-Za-z0-9_:-]{1,128}$/, "must be an event id or its beginning")
      .optional()
      .meta({ description: "How the id begins." }),
    text: z.string().min(1).max(200).optional().meta({
      description: "A part of `data` as it was published, letter by letter: in JSON, with escapes as they are.",
    }),
    ...attempted,
    ...paging,
  })
  .refine(isSpan, NO_SPAN);

export const attemptsQuery = z
  .strictObject({
    subscriptionId: z.string().max(64).optional(),
    since: moment.optional().meta({ description: "Of events that were accepted then or later." }),
    until: moment.optional().meta({ description: "Of events that were accepted before." }),
    ...attempted,
    ...paging,
  })
  .refine(isSpan, NO_SPAN);
