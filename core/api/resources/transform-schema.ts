/** What a transform test answers. */
import { z } from "zod";

export const transformTested = z
  .strictObject({
    transform: z.string().nullable().meta({ description: "The transform that was run; null when there is none." }),
    made: z.boolean().meta({ description: "Whether there is a body to send." }),
    body: z
      .string()
      .nullable()
      .meta({ description: "The body as it would be sent and signed; null when there is none." }),
    error: z
      .string()
      .nullable()
      .meta({
        description: "Why there is none, as `detail` of an attempt says it.",
        examples: ["slack threw Error: no"],
      }),
  })
  .meta({ id: "TransformTest" });
