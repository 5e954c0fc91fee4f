/** Filters lists by status, type, subscription and time. The settings are in the address. */
import { useState } from "preact/hooks";
import { eventTypes } from "./event-types-input.tsx";
import { Field, Select } from "./fields.tsx";
import { knownOf, loadStats, nameOf, useKnown } from "../state/api-keys.ts";
import { relayNow } from "../state/relay-time.ts";
import { refine } from "../state/route.ts";
import { SavedFilters } from "./saved-filters.tsx";
import { searchNames } from "./search.tsx";

type Query = Readonly<Record<string, string>>;

const SPANS: Readonly<Record<string, readonly [text: string, ms: number]>> = {
  "": ["Any time", 0],
  "1h": ["Last hour", 3_600_000],
  "24h": ["Last 24 hours", 86_400_000],
  "7d": ["Last 7 days", 604_800_000],
  own: ["From … to …", 0],
};

/**
 * The address holds times in UTC: it may be opened in another time zone, and an hour that a clock repeats is named once.
 * `datetime-local` values are in the user's own time zone.
 */
const iso = (text: string | undefined): string | undefined =>
  text === undefined || Number.isNaN(Date.parse(text)) ? undefined : new Date(text).toISOString();

const padded = (value: number, digits = 2): string => String(value).padStart(digits, "0");

/** `2026-11-23T14:03`, in the user's own time zone. Empty for a text that is no time. */
function local(text = ""): string {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return "";
  const day = `${padded(at.getFullYear(), 4)}-${padded(at.getMonth() + 1)}-${padded(at.getDate())}`;
  return `${day}T${padded(at.getHours())}:${padded(at.getMinutes())}`;
}

/** The settings for a time between two, epoch ms. */
export const spanQuery = (from: number, until: number): Query => ({
  time: "own",
  since: new Date(from).toISOString(),
  until: new Date(until).toISOString(),
});

const MINUTE = 60_000;

/** Rounds to whole minutes, so that the same choice is the same request for a while. */
export function periodOf({ time = "", since, until }: Query): { readonly since?: string; readonly until?: string } {
  if (time === "own") return { since: iso(since), until: iso(until) };
  const ms = SPANS[time]?.[1] ?? 0;
  return ms === 0 ? {} : { since: new Date(Math.floor((relayNow() - ms) / MINUTE) * MINUTE).toISOString() };
}

interface FiltersProps {
  readonly keyId: string;
  readonly query: Query;
  /** Empty: the list is of attempts, and has neither statuses nor types. */
  readonly statuses: readonly string[];
}

export const Filters = ({ keyId, query, statuses }: FiltersProps) => {
  const subs = useKnown(keyId);
  const [types, setTypes] = useState<readonly string[]>([]);
  const set = (what: Query): void => refine({ cursor: undefined, ...what });
  const loadTypes = async (): Promise<void> => setTypes((await eventTypes()).map((one) => one.name));
  const loadSubs = async (): Promise<void> => {
    if (knownOf(keyId) === undefined) await loadStats(keyId, "24h");
  };
  const all = (chosen: string | undefined, list: readonly string[]): readonly string[] =>
    chosen === undefined || list.includes(chosen) ? list : [chosen, ...list];
  const ids = all(query["sub"], [...subs.keys()]);
  const name = (id: string): string => {
    const one = subs.get(id);
    return one === undefined ? id : nameOf(one);
  };
  return (
    <div class="filters" role="search" aria-label="Filters">
      {statuses.length > 0 && (
        <Select
          label="Status"
          value={query["status"] ?? ""}
          options={[["", "Any status"], ...statuses.map((one) => [one, one] as const)]}
          change={(status) => set({ status })}
        />
      )}
      {statuses.length > 0 && (
        <Select
          label="Type"
          value={query["type"] ?? ""}
          options={[["", "Any type"], ...all(query["type"], types).map((one) => [one, one] as const)]}
          change={(type) => set({ type })}
          load={loadTypes}
        />
      )}
      <Select
        label="Subscription"
        value={query["sub"] ?? ""}
        options={[["", "Any subscription"], ...ids.map((id) => [id, name(id)] as const)]}
        change={(sub) => set({ sub })}
        load={loadSubs}
      />
      <Select
        label="Time"
        value={query["time"] ?? ""}
        options={Object.entries(SPANS).map(([value, [text]]) => [value, text] as const)}
        change={(time) => set({ time, since: "", until: "" })}
      />
      {query["time"] === "own" && (
        <Field
          label="From"
          type="datetime-local"
          value={local(query["since"])}
          change={(since) => set({ since: iso(since) ?? "" })}
        />
      )}
      {query["time"] === "own" && (
        <Field
          label="To"
          type="datetime-local"
          value={local(query["until"])}
          change={(until) => set({ until: iso(until) ?? "" })}
        />
      )}
      <SavedFilters
        keyId={keyId}
        query={query}
        names={[
          ...(statuses.length > 0 ? ["status", "type"] : []),
          ...(["sub", "time", "since", "until"] as const),
          ...searchNames(statuses.length === 0),
        ]}
      />
    </div>
  );
};
