/** Reads and writes times: RFC 3339 in, ISO 8601 in UTC with milliseconds out. */

/** Returns ISO 8601 text, UTC, with milliseconds. */
export const isoTime = (ms: number): string => new Date(ms).toISOString();

const LONGEST = 64;
const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))$/i;
const MINUTE = 60_000;
const DAY = 86_400_000;

/**
 * Returns the epoch ms of an RFC 3339 date-time without the digits beyond the millisecond; `undefined` when it is not
 * one. A leap second (`:60`, only where UTC has one: at the end of a month) counts as the second after it, as in POSIX.
 */
export function parseTime(text: string): number | undefined {
  const found = text.length <= LONGEST ? RFC_3339.exec(text) : null;
  if (found === null) return undefined;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const [offsetHour, offsetMinute] = [Number(found[9] ?? 0), Number(found[10] ?? 0)];
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day); // Date.UTC reads years 0 to 99 as 1900 to 1999
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const offset = (offsetHour * 60 + offsetMinute) * MINUTE * (found[8] === "-" ? -1 : 1);
  const inMinute = Number((found[7] ?? "").slice(0, 3).padEnd(3, "0"));
  const at = date.getTime() + (hour * 60 + minute) * MINUTE + second * 1_000 + inMinute - offset;
  if (second === 60) {
    const next = new Date(at - inMinute);
    if (next.getTime() % DAY !== 0 || next.getUTCDate() !== 1) return undefined;
  }
  // A date whose UTC year does not have four digits could not be written back.
  const utcYear = new Date(at).getUTCFullYear();
  return utcYear >= 0 && utcYear <= 9_999 ? at : undefined;
}
