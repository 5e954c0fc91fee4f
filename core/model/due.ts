/** Writes and reads the text of a line in the due index, and that of a delivery that waits for its turn. */
import type { Due } from "./delivery.ts";
import { DUE, WAITING } from "./schema.ts";

/** Encodes the line's text; for a damaged line, returns the text as it was read. */
export function dueValue({ keyId, generation, cycle, attempts, waitMs, order, damaged }: Due): string {
  if (damaged !== undefined) return damaged;
  const text = `${keyId} ${generation} ${cycle} ${attempts}`;
  const whole = waitMs === undefined ? text : `${text} ${waitMs}`;
  return order === undefined ? whole : `${whole} @${order.sequence}.${order.place}`;
}
const DUE_VALUE =
  /^([A-Za-z0-9][A-Za-z0-9_:-]{0,63}) (\d{1,15}) (\d{1,15}) (\d{1,15})(?: (\d{1,15}))?(?: @(\d{1,3})\.(\d{1,15}))?$/;
/**
 * Reads a due line. The key gives its subscription and time. When only the text is not one that `dueValue` makes, it
 * returns a line with `damaged` set, so that the delivery can still be ended.
 * @throws SyntaxError when the key is not a due line's
 */
export function parseDue(key: string, value: string): Due {
  const { subscriptionId, dueAt, ordinal } = DUE.id(key);
  const whole = subscriptionId !== "" && ordinal !== "" && !ordinal.includes(":");
  if (!whole || DUE.key({ subscriptionId, dueAt, ordinal }) !== key)
    throw new SyntaxError("the key is not that of a due line");
  const said = DUE_VALUE.exec(value);
  const [, keyId = "", generation = 0, cycle = 0, attempts = 0, wait, sequence, place] = said ?? [];
  const due: Due = {
    subscriptionId,
    keyId,
    ordinal,
    dueAt,
    generation: Number(generation),
    cycle: Number(cycle),
    attempts: Number(attempts),
    waitMs: wait === undefined ? undefined : Number(wait),
    order: sequence === undefined ? undefined : { sequence: Number(sequence), place: Number(place) },
  };
  return said !== null && dueValue(due) === value ? due : { ...due, damaged: value };
}

export const waitingValue = (due: Due): string => `${due.dueAt} ${dueValue(due)}`;
/** @returns the due line that the delivery gets when its turn comes @throws SyntaxError when it cannot be read */
export function parseWaiting(key: string, value: string): Due {
  const { subscriptionId, ordinal } = WAITING.id(key);
  const space = value.indexOf(" ");
  const dueAt = Number(value.slice(0, space));
  const due = parseDue(DUE.key({ subscriptionId, dueAt, ordinal }), value.slice(space + 1));
  if (space < 1 || due.damaged !== undefined || due.order === undefined)
    throw new SyntaxError("the text is not that of a waiting delivery");
  return due;
}
