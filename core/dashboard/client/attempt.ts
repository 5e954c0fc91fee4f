/** Shows one attempt: its time, its duration, its answer. */
import type { ComponentChildren } from "preact";
import { el, part } from "./dom.ts";
import { Excerpt } from "./excerpt.ts";
import { duration, moment, reason } from "./format.ts";
import { badge } from "./elements.ts";
import type { Attempt } from "./shapes.ts";

const succeeded = ({ statusCode = 0 }: Attempt): boolean => statusCode >= 200 && statusCode < 300;

interface LineProps {
  readonly attempt: Attempt;
  /** A link to the exact request. */
  readonly more?: ComponentChildren;
}

export const AttemptLine = part(({ attempt, more }: LineProps) => {
  const { number, startedAt, durationMs, statusCode, error, detail, responseExcerpt, responseTruncated } = attempt;
  const good = succeeded(attempt);
  return el.div(
    { class: `attempt is-${good ? "delivered" : "failed"}` },
    el.p(
      { class: "attempt-head" },
      el.strong(null, `Attempt ${number}`),
      badge(good ? "delivered" : "failed", statusCode === undefined ? reason(error ?? "") : String(statusCode)),
      el.span({ class: "figure" }, duration(durationMs)),
      el.time({ dateTime: startedAt, class: "quiet" }, moment(startedAt)),
    ),
    detail !== undefined && el.p({ class: "wrap" }, detail),
    responseExcerpt !== undefined && Excerpt({ text: responseExcerpt, truncated: responseTruncated === true }),
    more,
  );
});
