/** Shows how an endpoint does: by the share of its attempts that succeeded in the time that is shown, in words, colour and shape. */
import type { VNode } from "preact";
import { isGood, answerText } from "./attempts.tsx";
import { badge, When } from "./elements.tsx";
import { count, reason, shareOf } from "../state/format.ts";
import type { Glance } from "../shapes.ts";

/** From this share on it is healthy, and below the second one failing; between them it is degraded. */
const HEALTHY = 0.95;
const FAILING = 0.5;

/** The worst come first. `stopped`: disabled by the relay; `disabled`: by a person, who knows of it. */
export const STATES = ["down", "stopped", "failing", "degraded", "healthy", "idle", "disabled"] as const;
type HealthState = (typeof STATES)[number];
/** In words; the others say it by themselves. */
const WORDS: Readonly<Partial<Record<HealthState, string>>> = {
  stopped: "disabled by the relay",
  disabled: "disabled by a person",
};
export const stateWord = (state: HealthState): string => WORDS[state] ?? state;

export function stateOf({ status, disabledReason, restsUntil, figures }: Glance): HealthState {
  if (status === "disabled") return disabledReason === undefined ? "disabled" : "stopped";
  if (restsUntil !== undefined) return "down";
  if (figures.attempts === 0) return "idle";
  const rate = figures.delivered / figures.attempts;
  return rate >= HEALTHY ? "healthy" : rate < FAILING ? "failing" : "degraded";
}

/** Orders endpoints with the worst first; those that are alike stay in their order. */
export const byWorst = (one: Glance, other: Glance): number =>
  STATES.indexOf(stateOf(one)) - STATES.indexOf(stateOf(other));

interface HealthProps {
  readonly one: Glance;
  /** Without the rate, which is said beside it. */
  readonly brief?: boolean;
}

/** Says the state, and why it is not tried at all. */
export const HealthText = ({ one, brief = false }: HealthProps): VNode => {
  const state = stateOf(one);
  const more = [...whyOf(one, state), ...(brief || state === "idle" ? [] : [ratedOf(one)])];
  return (
    <span class="health">
      {badge(state, stateWord(state))}
      {more.length > 0 && <small>{more.flatMap((part, i) => (i === 0 ? [part] : [", ", part]))}</small>}
      {one.recentAttempts !== undefined && one.recentAttempts.length > 0 && <Strip of={one.recentAttempts} />}
    </span>
  );
};

const ratedOf = ({ figures }: Glance): string => shareOf(figures.delivered, figures.attempts, "attempts");

function whyOf(one: Glance, state: HealthState): readonly (VNode | string)[] {
  const { disabledReason, failuresInARow, restsUntil, lastDelivery: last } = one;
  if (state === "stopped") return [reason(disabledReason ?? "")];
  if (state === "disabled") return [];
  const row = failuresInARow > 1 ? [`${count(failuresInARow)} failed in a row`] : [];
  if (restsUntil === undefined) return row;
  const answer = last !== undefined && last.status !== "delivered" ? answerText(last) : "";
  return [
    <span>
      next try <When at={restsUntil} />
    </span>,
    ...row,
    ...(answer === "" ? [] : [`the last answer: ${answer}`]),
  ];
}

/** One bar an attempt, the newest at the end: a failed one is higher, so that it is no matter of colour. */
const Strip = ({ of }: { readonly of: readonly (number | string)[] }): VNode => {
  const good = of.map((one) => isGood(typeof one === "number" ? { statusCode: one } : {}));
  const failed = good.filter((one) => !one).length;
  const words = `The last ${of.length === 1 ? "attempt" : `${of.length} attempts`}: ${of.length - failed} delivered, ${failed} failed`;
  return (
    <span class="strip" role="img" aria-label={words} title={`${words}; the newest stands right`}>
      {good.map((one) => (
        <i class={one ? undefined : "is-failed"} />
      ))}
    </span>
  );
};
