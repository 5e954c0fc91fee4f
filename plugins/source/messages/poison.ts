/** Tells a refusal that never changes, which sets a message aside, from one that asks to come again later. */
import { isLater, Problem } from "../../../core/model/problem.ts";
import type { Poison } from "./message.ts";

const LONGEST = 1_000;
/** Mistakes that are listed; the rest are counted. */
const LISTED = 5;

/** True for a refusal of the event itself. Too many requests, a fault of the relay or an unknown error are none. */
export const isPermanent = (error: unknown): error is Problem => error instanceof Problem && !isLater(error);

/** Returns the code and all that helps to correct the message, without its content. */
export function poisonOf(error: unknown): Poison {
  if (!(error instanceof Problem)) return { code: "INTERNAL_ERROR", detail: String(error).slice(0, LONGEST) };
  const { errors = [] } = error.extras;
  const listed = errors.slice(0, LISTED).map(({ path, message }) => `${path} ${message}`.trim());
  if (errors.length > LISTED) listed.push(`and ${errors.length - LISTED} more`);
  const detail = listed.length === 0 ? error.detail : `${error.detail} ${listed.join("; ")}`;
  return { code: error.code, detail: detail.slice(0, LONGEST) };
}
