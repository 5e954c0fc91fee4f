/** Shows one attempt: its time, its duration, its answer. */
import type { ComponentChildren } from "preact";
import { answerBadge, isGood } from "./answer.ts";
import { el, part } from "./dom.ts";
import { Excerpt } from "./excerpt.ts";
import { duration, moment } from "./format.ts";
import type { Attempt } from "./shapes.ts";

interface LineProps {
  readonly attempt: Attempt;
  /** What stands below it: the exact request. */
  readonly more?: ComponentChildren;
}

export const AttemptLine = part(({ attempt, more }: LineProps) => {
  const { number, startedAt, durationMs, detail, responseExcerpt, responseTruncated } = attempt;
  return el.div(
    { class: `attempt is-${isGood(attempt) ? "delivered" : "failed"}` },
    el.p(
      { class: "attempt-head" },
      el.strong(null, `Attempt ${number}`),
      answerBadge(attempt),
      el.span({ class: "figure" }, duration(durationMs)),
      el.time({ dateTime: startedAt, class: "quiet" }, moment(startedAt)),
    ),
    detail !== undefined && el.p({ class: "wrap" }, detail),
    responseExcerpt !== undefined && Excerpt({ text: responseExcerpt, truncated: responseTruncated === true }),
    more,
  );
});
