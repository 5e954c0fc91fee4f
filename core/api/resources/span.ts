/** Moments in queries and bodies, and the check of two that bound a span of time. */
import { z } from "zod";

export const moment = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));

/** Whether there is a moment between the two. A span without one is refused: it is more often a mistake than a question. */
export const isSpan = ({
  since,
  until,
}: {
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}): boolean => since === undefined || until === undefined || since < until;
export const NO_SPAN = { path: ["since"], message: "must be before until" };
