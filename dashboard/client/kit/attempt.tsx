/** Shows one attempt: its time, its duration, its answer. */
import type { ComponentChildren } from "preact";
import { answerBadge, isGood } from "./answer.tsx";
import { Excerpt } from "./excerpt.tsx";
import { duration, moment } from "../state/format.ts";
import type { Attempt } from "../shapes.ts";

interface LineProps {
  readonly attempt: Attempt;
  /** What stands below it: the exact request. */
  readonly more?: ComponentChildren;
}

export const AttemptLine = ({ attempt, more }: LineProps) => {
  const { number, startedAt, durationMs, detail, responseExcerpt, responseTruncated } = attempt;
  return (
    <div class={`attempt is-${isGood(attempt) ? "delivered" : "failed"}`}>
      <p class="attempt-head">
        <strong>{`Attempt ${number}`}</strong>
        {answerBadge(attempt)}
        <span class="figure">{duration(durationMs)}</span>
        <time dateTime={startedAt} class="quiet">
          {moment(startedAt)}
        </time>
      </p>
      {detail !== undefined && <p class="wrap">{detail}</p>}
      {responseExcerpt !== undefined && <Excerpt text={responseExcerpt} truncated={responseTruncated === true} />}
      {more}
    </div>
  );
};
