/** Says what a receiver answered to an attempt: its response code, or why there is none. */
import type { VNode } from "preact";
import { badge } from "./elements.tsx";
import { reason } from "../state/format.ts";
import type { Attempt } from "../shapes.ts";

type Answer = Pick<Attempt, "statusCode" | "error">;

export const isGood = ({ statusCode = 0 }: Answer): boolean => statusCode >= 200 && statusCode < 300;

/** `502`, or `timed out` */
export const answerText = ({ statusCode, error }: Answer): string => String(statusCode ?? reason(error ?? ""));

export const answerBadge = (attempt: Answer): VNode =>
  badge(isGood(attempt) ? "delivered" : "failed", answerText(attempt));

/** For lists whose rows have a badge already: one that failed has its colour alone. */
export const answered = (attempt: Answer | undefined, more = ""): VNode | string =>
  attempt === undefined ? (
    "–"
  ) : (
    <span class={isGood(attempt) ? undefined : "wrong"}>{`${answerText(attempt)}${more}`}</span>
  );
