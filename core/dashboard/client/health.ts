/** Says how an endpoint does: by the share of its attempts that succeeded in the time that is shown, in words, colour and shape. */
import type { VNode } from "preact";
import { el, part } from "./dom.ts";
import { badge, useNow, When } from "./elements.ts";
import { count, reason, shareOf } from "./format.ts";
import type { Glance } from "./shapes.ts";

/** From this share on it is healthy, and below the second one failing; between them it is degraded. */
const HEALTHY = 0.95;
const FAILING = 0.5;

const said = (state: string, why?: VNode | string): VNode =>
  el.span({ class: "health" }, badge(state), why !== undefined && el.small(null, why));

/** What keeps it from being tried comes first. */
export const HealthText = part(({ one }: { readonly one: Glance }): VNode => {
  const now = useNow();
  const { figures, failuresInARow, restsUntil } = one;
  const why = shareOf(figures.delivered, figures.attempts);
  if (one.status === "disabled")
    return said("disabled", one.disabledReason === undefined ? why : `${reason(one.disabledReason)}, ${why}`);
  if (restsUntil !== undefined && Date.parse(restsUntil) > now)
    return said(
      "paused",
      el.span(null, `${count(failuresInARow)} failed in a row, tried again `, When({ at: restsUntil })),
    );
  if (figures.attempts === 0) return said("idle");
  const rate = figures.delivered / figures.attempts;
  const row = failuresInARow > 1 ? `${why}, ${count(failuresInARow)} failed in a row` : why;
  return said(rate >= HEALTHY ? "healthy" : rate < FAILING ? "failing" : "degraded", row);
});
