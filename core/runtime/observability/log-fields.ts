/** Says what of its fields a log line carries, and how. */
import { thrownText } from "../plugin/thrown.ts";

/**
 * The fields that a log line may carry. A field that is not named here is not written, whichever room passes it: so a
 * secret, a token, a body or a URL with its query cannot get into a log by carelessness.
 */
export const LOG_FIELDS: ReadonlySet<string> = new Set(
  [
    // who and what
    "requestId eventId type keyId subscriptionId deliveryId attemptId traceId ordinal sub action source",
    "transport storage plugin kind driver name node job part tick version",
    // how it went
    "attempt cycle number status statusCode outcome result code reason error fault stage duplicate durability",
    "detail why signal exitCode",
    // how much and when
    "count items wanted connected keys deliveries events matched replayed removed bytes waiting left leased",
    "durationMs waitMs lagMs nextAttemptAt dueAt until",
    // where
    "method path route address host port url target item key file folder",
  ].flatMap((names) => names.split(" ")),
);

/** Longest text of one field; a longer one is cut. */
export const MAX_FIELD = 500;

/** Masks secrets in a text. */
export type Mask = (text: string) => string;

/** Masked before it is cut: no mask knows a secret of which the cut leaves a part. */
export function cut(text: string, mask: Mask): string {
  if (text.length <= MAX_FIELD) return text;
  const shown = mask(text);
  return shown.length > MAX_FIELD ? `${shown.slice(0, MAX_FIELD)}…` : shown;
}

type Fields = Record<string, unknown>;

/**
 * Returns what gives fields as they may be written: texts cut, URLs without their query, objects as one text, as they may
 * hold anything, the names of all others in `omitted`. Nearly every line may be written as it is, and is not copied.
 */
export const allowedOnly =
  (mask: Mask) =>
  (fields: Fields): Fields => {
    for (const name in fields) {
      const value = fields[name];
      if (value === undefined) continue;
      const fits = typeof value === "string" ? name !== "url" && value.length <= MAX_FIELD : typeof value !== "object";
      if (!fits || !LOG_FIELDS.has(name)) return cleaned(fields, mask);
    }
    return fields;
  };

function cleaned(fields: Fields, mask: Mask): Fields {
  const made: Fields = {};
  const omitted: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (!LOG_FIELDS.has(name)) omitted.push(name);
    else if (typeof value === "string") made[name] = cut(name === "url" ? value.replace(/[?#].*$/s, "") : value, mask);
    else made[name] = typeof value === "object" ? cut(thrownText(value), mask) : value;
  }
  return omitted.length === 0 ? made : { ...made, omitted: omitted.join(" ").slice(0, MAX_FIELD) };
}
