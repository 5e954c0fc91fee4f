/** Shows the attempts of a delivery in their order. Attempts with the same answer, one after another, are folded. */
import type { ComponentChildren, VNode } from "preact";
import { answerText } from "./answer.tsx";
import { AttemptLine } from "./attempt.tsx";
import type { Attempt } from "../shapes.ts";

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

/** @param more what follows below an attempt that is not folded */
export const timeline = (attempts: readonly Attempt[], more: (attempt: Attempt) => ComponentChildren): VNode => (
  <ol class="timeline">
    {runsOf(attempts).flatMap((run) => {
      const last = run.at(-1) as Attempt;
      const before = run.slice(0, -1);
      const shown = (
        <li key={last.id}>
          <AttemptLine attempt={last} more={more(last)} />
        </li>
      );
      return before.length === 0 ? [shown] : [folded(before, last), shown];
    })}
  </ol>
);

function folded(before: readonly Attempt[], last: Attempt): VNode {
  const answer = answerText(last);
  const text =
    before.length === 1
      ? `Attempt ${before[0]?.number} ended the same`
      : `${before.length} attempts before ended the same`;
  return (
    <li key={`before ${last.id}`}>
      <details class="folded">
        <summary>{`${text}: ${answer}`}</summary>
        {before.map(({ id, ...one }) => {
          const { responseExcerpt: _, responseTruncated: _cut, ...rest } = one;
          return <AttemptLine key={id} attempt={{ id, ...rest }} />;
        })}
      </details>
    </li>
  );
}
