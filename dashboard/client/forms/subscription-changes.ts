/** Finds what was changed in the edit form, so that what others change meanwhile stays. */
import { ApiRefusal } from "../state/api.ts";
import { ORDER } from "./order.tsx";
import type { Subscription } from "../shapes.ts";

/** The content of the fields, under the names of the API. */
export type Settings = Readonly<Record<string, unknown>>;
type Headers = Readonly<Record<string, string | null>>;

const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

/**
 * Returns the fields whose content is not what it was when the form was opened; `null` clears one.
 * @param stored as it is now: headers are replaced as a whole, so those that others have added are among them
 */
export function patchOf(before: Settings, now: Settings, stored: Subscription): Settings {
  const changed = Object.keys(now).filter((name) => !same(before[name], now[name]));
  // Each of these means something only beside the others.
  const names = ORDER.some((name) => changed.includes(name)) ? new Set([...changed, ...ORDER]) : changed;
  const patch = Object.fromEntries([...names].map((name) => [name, now[name] ?? null]));
  return "headers" in patch ? { ...patch, headers: mergeHeaders(before, now, stored) } : patch;
}

function mergeHeaders(before: Settings, now: Settings, { headers: stored = {} }: Subscription): Headers {
  const [opened, left] = [before, now].map(({ headers }) => (headers ?? {}) as Headers) as [Headers, Headers];
  const typed = Object.entries(left).filter(([, value]) => value !== null);
  const again = new Set(typed.map(([name]) => name.toLowerCase()));
  const kept = Object.keys(stored).filter(
    (name) => (!(name in opened) || name in left) && !again.has(name.toLowerCase()),
  );
  return Object.fromEntries([...kept.map((name) => [name, null] as const), ...typed]);
}

interface Clash {
  /** The fields in question as they are stored now. */
  readonly now: Partial<Subscription>;
  readonly refusal: ApiRefusal;
}

/**
 * Returns the refusal that names the fields which somebody else has changed too; `undefined` when there are none.
 * @param seen as the person knows it
 */
export function clashOf(patch: Settings, seen: Subscription, stored: Subscription): Clash | undefined {
  const before: Settings = seen;
  const now: Settings = stored;
  const names = Object.keys(patch).filter(
    (name) => name !== "headers" && !same(before[name], now[name]) && !same(patch[name] ?? undefined, now[name]),
  );
  if (names.length === 0) return undefined;
  const errors = names.map((name) => ({ path: name, message: `is now ${inWords(name, now[name])}` }));
  const detail = "Somebody else has changed this meanwhile. Save again to replace it by what you have typed.";
  return {
    now: Object.fromEntries(names.map((name) => [name, now[name]])),
    refusal: new ApiRefusal(409, { code: "CHANGED_MEANWHILE", detail, errors }),
  };
}

function inWords(name: string, value: unknown): string {
  if (value === undefined) return "empty";
  if (name === "timeoutMs") return `${Number(value) / 1_000} s`;
  return typeof value === "string" ? `“${value}”` : JSON.stringify(value);
}
