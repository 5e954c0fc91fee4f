/** Shows attempts: what a receiver answered to each, and those of a delivery in their order. */
import type { ComponentChildren, VNode } from "preact";
import { badge } from "./elements.tsx";
import { duration, moment, reason } from "../state/format.ts";
import type { Attempt } from "../shapes.ts";

type Answer = Pick<Attempt, "statusCode" | "error">;

export const isGood = ({ statusCode = 0 }: Answer): boolean => statusCode >= 200 && statusCode < 300;

/** `502`, or `timed out` */
export const answerText = ({ statusCode, error }: Answer): string => String(statusCode ?? reason(error ?? ""));

const statusOf = (attempt: Answer): string => (isGood(attempt) ? "delivered" : "failed");
export const answerBadge = (attempt: Answer): VNode => badge(statusOf(attempt), statusOf(attempt), answerText(attempt));

/** For lists whose rows have a badge already: one that failed has its colour alone. */
export const answered = (attempt: Answer | undefined, more = ""): VNode | string =>
  attempt === undefined ? (
    "–"
  ) : (
    <span class={isGood(attempt) ? undefined : "wrong"}>{`${answerText(attempt)}${more}`}</span>
  );

interface LineProps {
  readonly attempt: Omit<Attempt, "id">;
  /** Stands below it: the exact request. */
  readonly more?: ComponentChildren;
}

/** Shows what a receiver wrote as text in a box of its own, which says where it comes from. */
export const AttemptLine = ({ attempt, more }: LineProps) => {
  const { number, startedAt, durationMs, detail, responseExcerpt, responseTruncated } = attempt;
  return (
    <div class={`attempt is-${statusOf(attempt)}`}>
      <p class="attempt-head">
        <strong>{`Attempt ${number}`}</strong>
        {answerBadge(attempt)}
        <span class="figure">{duration(durationMs)}</span>
        <time dateTime={startedAt} class="quiet">
          {moment(startedAt)}
        </time>
      </p>
      {detail !== undefined && <p class="wrap">{detail}</p>}
      {responseExcerpt !== undefined && (
        <figure class="excerpt">
          <figcaption class="quiet">
            The receiver answered
            {responseTruncated === true && " (the beginning of it)"}
          </figcaption>
          <pre tabIndex={0} dir="ltr">
            {responseExcerpt}
          </pre>
        </figure>
      )}
      {more}
    </div>
  );
};

const answerOf = ({ statusCode, error, detail, responseExcerpt }: Attempt): string =>
  JSON.stringify([statusCode, error, detail, responseExcerpt]);

/** Splits attempts where the answer changes. */
function runsOf(attempts: readonly Attempt[]): readonly (readonly Attempt[])[] {
  const runs: Attempt[][] = [];
  for (const one of attempts) {
    const last = runs.at(-1);
    if (last?.[0] !== undefined && answerOf(last[0]) === answerOf(one)) last.push(one);
    else runs.push([one]);
  }
  return runs;
}

/**
 * Folds attempts with the same answer, one after another.
 * @param more follows below an attempt that is not folded
 */
export const timeline = (attempts: readonly Attempt[], more: (attempt: Attempt) => ComponentChildren): VNode => (
  <ol class="timeline">
    {runsOf(attempts).flatMap((run) => {
      const last = run.at(-1) as Attempt;
      return [
        run.length > 1 && <li key={`before ${last.id}`}>{folded(run.slice(0, -1), answerText(last))}</li>,
        <li key={last.id}>
          <AttemptLine attempt={last} more={more(last)} />
        </li>,
      ];
    })}
  </ol>
);

const folded = (before: readonly Attempt[], answer: string): VNode => (
  <details class="folded">
    <summary>
      {before.length === 1
        ? `Attempt ${before[0]?.number} ended the same: ${answer}`
        : `${before.length} attempts before ended the same: ${answer}`}
    </summary>
    {before.map(({ responseExcerpt: _text, responseTruncated: _cut, ...one }) => (
      <AttemptLine key={one.id} attempt={one} />
    ))}
  </details>
);
