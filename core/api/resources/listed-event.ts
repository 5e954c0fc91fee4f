/** The shape of an event in a list: where it went, and what was answered last. */
import { z } from "zod";
import { eventHead, time } from "./shapes.ts";
import { attemptErrors } from "./statuses.ts";

const lastAttempt = z.strictObject({
  subscriptionId: z.string(),
  at: time,
  statusCode: z.int().optional(),
  error: attemptErrors.optional(),
});

export const listedEvent = z
  .strictObject({
    ...eventHead,
    recipients: z.int().meta({ description: "How many subscriptions get it." }),
    subscriptionIds: z
      .array(z.string())
      .optional()
      .meta({ description: "The first three of them. Left out where it has very many." }),
    lastAttempt: lastAttempt
      .optional()
      .meta({ description: "The newest one of all its deliveries. Left out where it has very many." }),
  })
  .meta({ id: "Event" });
