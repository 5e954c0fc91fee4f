/** The shapes of an event and of a delivery in a list: where it went, and what was answered last. */
import { z } from "zod";
import { delivery, eventHead, time } from "./shapes.ts";
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
    subscriptionName: z
      .string()
      .optional()
      .meta({ description: "Of the only one: its description, or else the host of its URL." }),
    lastAttempt: lastAttempt
      .optional()
      .meta({ description: "The newest one of all its deliveries. Left out where it has very many." }),
  })
  .meta({ id: "Event" });

export const listedDelivery = z
  .strictObject({
    eventId: z.string(),
    type: z.string().optional().meta({ description: "Of its event. Left out where that is gone or damaged." }),
    ...delivery,
  })
  .meta({ id: "Delivery" });
