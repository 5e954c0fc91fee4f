/** Formats times, numbers and durations for people, in the browser's own language where that matters. */

/** The first formatter of a page costs 16 ms: it is made when it is needed, which is after the first list. */
export function lazily<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
const absolute = lazily(() => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }));
const time = lazily(() => new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }));
const dated = lazily(
  () =>
    new Intl.DateTimeFormat("en-GB", {
      day: "2-digit",
      month: "short",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    }),
);

/** `1,234.5` */
export function count(value: number): string {
  const [whole = "", part] = String(Math.round(value * 10) / 10).split(".");
  const grouped = whole.replaceAll(/\B(?=(?:\d{3})+$)/g, ",");
  return part === undefined ? grouped : `${grouped}.${part}`;
}

/** The relay counts no further than this. */
export const backlogText = (value: number, more: string): string => (value >= 1_000 ? `1,000${more}` : count(value));

/** `71.4 % of 84 attempts` */
export const shareOf = (part: number, whole: number, what: string): string =>
  whole === 0 ? `no ${what}` : `${share(part, whole)} of ${count(whole)} ${what}`;

export function share(part: number, whole: number): string {
  if (whole === 0) return "–";
  const percent = (part / whole) * 100;
  // 99.97 % is not all of them.
  return `${part === whole ? "100" : percent > 99.9 ? "99.9" : percent.toFixed(1)} %`;
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0 ms";
  if (ms < 1) return "<1 ms";
  if (ms < 1_000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let rest = value;
  for (; rest >= 1_024 && unit < units.length - 1; unit++) rest /= 1_024;
  return `${unit === 0 ? rest : rest.toFixed(1)} ${units[unit]}`;
}

export const moment = (iso: string): string => absolute().format(new Date(iso));

/** `14:03:09`, with the day when that is another one. */
export const clockTime = (iso: string, now: number): string =>
  (new Date(iso).toDateString() === new Date(now).toDateString() ? time() : dated()).format(new Date(iso));

const STEPS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
] as const;

/** `3 minutes ago`, `in 1 hour` */
export function ago(iso: string, now: number): string {
  const seconds = Math.round((Date.parse(iso) - now) / 1_000);
  const past = Math.abs(seconds);
  const [unit, length] = STEPS.find(([, least]) => past >= least) ?? ["second", 1];
  if (past < 5) return "just now";
  const many = Math.trunc(past / length);
  const words = `${many} ${unit}${many === 1 ? "" : "s"}`;
  return seconds < 0 ? `${words} ago` : `in ${words}`;
}

/** Returns the host, for places where the whole URL is too long. Text that is no URL stays unchanged. */
export const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url);

const REASONS: Readonly<Record<string, string>> = {
  exhausted: "all attempts failed",
  endpoint_gone: "the endpoint answered 410 Gone",
  receiver_disabled: "the receiver asked to be disabled",
  receiver_aborted: "the receiver gave it up",
  endpoint_failing: "it only failed for days",
  subscription_disabled: "the subscription was disabled",
  subscription_deleted: "the subscription was deleted",
  cancel_requested: "somebody cancelled it",
  record_damaged: "its stored record is damaged",
  dns: "name not resolved",
  guard: "address not allowed",
  connect: "no connection",
  tls: "TLS failed",
  timeout: "timed out",
  reset: "connection broken",
  protocol: "not HTTP",
  token: "no access token",
  transform: "the transform failed",
};
export const reason = (code: string): string => REASONS[code] ?? code;
