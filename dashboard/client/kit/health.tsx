/** Shows how an endpoint does: by the share of its attempts that succeeded in the time that is shown, in words, colour and shape. */
import type { VNode } from "preact";
import { badge, useNow, When } from "./elements.tsx";
import { count, reason, shareOf } from "../state/format.ts";
import type { Glance } from "../shapes.ts";

/** From this share on it is healthy, and below the second one failing; between them it is degraded. */
const HEALTHY = 0.95;
const FAILING = 0.5;

const said = (state: string, ...more: readonly (VNode | string)[]): VNode => (
  <span class="health">
    {badge(state)}
    {more.length > 0 && <small>{more.flatMap((one, i) => (i === 0 ? [one] : [", ", one]))}</small>}
  </span>
);

interface HealthProps {
  readonly one: Glance;
  /** Without the rate, which is said beside it. */
  readonly brief?: boolean;
}

/** Says first why it is not tried at all. */
export const HealthText = ({ one, brief = false }: HealthProps): VNode => {
  const now = useNow();
  const { figures, failuresInARow, restsUntil } = one;
  const rated = brief ? [] : [shareOf(figures.delivered, figures.attempts)];
  const { disabledReason: why } = one;
  if (one.status === "disabled") return said("disabled", ...(why === undefined ? [] : [reason(why)]), ...rated);
  if (restsUntil !== undefined && Date.parse(restsUntil) > now)
    return said(
      "paused",
      <span>
        {`${count(failuresInARow)} failed in a row, tried again `}
        <When at={restsUntil} />
      </span>,
    );
  if (figures.attempts === 0) return said("idle");
  const rate = figures.delivered / figures.attempts;
  const row = failuresInARow > 1 ? [`${count(failuresInARow)} failed in a row`] : [];
  return said(rate >= HEALTHY ? "healthy" : rate < FAILING ? "failing" : "degraded", ...rated, ...row);
};
