/** Reads and writes times: RFC 3339 in, ISO 8601 in UTC with milliseconds out. */

/** The end of the year 9999: later times are written with a sign and more digits. */
const FOUR_DIGITS_END = 253_402_300_800_000;
/** The second that was written last: its epoch ms, and its text up to the milliseconds. */
let second = Number.NaN;
let secondText = "";

/**
 * Returns ISO 8601 text, UTC, with milliseconds. Keeps the text of the last second, as the times of an event are nearly the
 * same: 7 % of the CPU of a batch over HTTP (three pairs: 13, -4 and 13), nothing measurable of one from a Redis stream in the
 * same pairs (-3, -8 and 4; `npm run bench -- sources --only redisStream`).
 * @throws RangeError for what is no time
 */
export function isoTime(ms: number): string {
  if (!(ms >= 0 && ms < FOUR_DIGITS_END)) return new Date(ms).toISOString();
  const whole = Math.trunc(ms);
  const rest = whole % 1_000;
  if (whole - rest !== second) {
    second = whole - rest;
    secondText = new Date(second).toISOString().slice(0, -4);
  }
  return `${secondText}${String(rest).padStart(3, "0")}Z`;
}

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
