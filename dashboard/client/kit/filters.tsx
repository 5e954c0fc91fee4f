/** Filters lists by status, type, subscription and time, in the address; and keeps filters under a name, in this browser. */
import { useState } from "preact/hooks";
import { eventTypes } from "./event-types-input.tsx";
import { Field, Select, useForm } from "./fields.tsx";
import { knownOf, loadStats, nameOf, useKnown } from "../state/api-keys.ts";
import { relayNow } from "../state/api.ts";
import { refine } from "../state/route.ts";
import { cleared, searchNames } from "./search.tsx";
import type { KeyDialogProps, OfKey, Query, ViewProps } from "../shapes.ts";
import { cell, useCell } from "../state/cell.ts";
import { FormDialog } from "./dialog.tsx";
import { isPortal } from "../state/page-facts.ts";
import { Button } from "./elements.tsx";

const SPANS: Readonly<Record<string, readonly [text: string, ms: number]>> = {
  "": ["Any time", 0],
  "1h": ["Last hour", 3_600_000],
  "24h": ["Last 24 hours", 86_400_000],
  "7d": ["Last 7 days", 604_800_000],
  own: ["From … to …", 0],
};

const MINUTE = 60_000;

/**
 * The address holds times in UTC: it may be opened in another time zone, and an hour that a clock repeats is named once.
 * `datetime-local` values are in the user's own time zone.
 */
const iso = (text: string | undefined): string | undefined =>
  text === undefined || Number.isNaN(Date.parse(text)) ? undefined : new Date(text).toISOString();

/** `2026-11-23T14:03`, in the user's own time zone. Empty for a text that is no time. */
function local(text = ""): string {
  const at = new Date(text);
  const ms = at.getTime() - at.getTimezoneOffset() * MINUTE;
  return Number.isNaN(ms) ? "" : new Date(ms).toISOString().slice(0, 16);
}

/** The settings for a time between two, epoch ms. */
export const spanQuery = (from: number, until: number): Query => ({
  time: "own",
  since: new Date(from).toISOString(),
  until: new Date(until).toISOString(),
});

/** Rounds to whole minutes, so that the same choice is the same request for a while. */
export function periodOf({ time = "", since, until }: Query): { readonly since?: string; readonly until?: string } {
  if (time === "own") return { since: iso(since), until: iso(until) };
  const ms = SPANS[time]?.[1] ?? 0;
  return ms === 0 ? {} : { since: new Date(Math.floor((relayNow() - ms) / MINUTE) * MINUTE).toISOString() };
}

const OF_ATTEMPTS = ["sub", "time", "since", "until"] as const;
const FILTERS = ["delivery", "status", "type", ...OF_ATTEMPTS] as const;
export const NO_FILTER = cleared(FILTERS);

/** What became of at least one delivery of an event. */
const DELIVERIES = [
  ["", "In any state"],
  ["failed", "That failed"],
  ["pending", "That waits"],
  ["delivered", "That was delivered"],
] as const;

interface FiltersProps extends ViewProps {
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
  const name = (id: string): string => {
    const one = subs.get(id);
    return one === undefined ? id : nameOf(one);
  };
  /** @param any the words for all of them */
  const choice = (of: string, label: string, any: string, list: readonly string[], load?: () => Promise<void>) => {
    const chosen = query[of] ?? "";
    const offered = chosen === "" || list.includes(chosen) ? list : [chosen, ...list];
    const options = [["", any] as const, ...offered.map((one) => [one, of === "sub" ? name(one) : one] as const)];
    return <Select label={label} value={chosen} options={options} change={(one) => set({ [of]: one })} load={load} />;
  };
  const moment = (of: "since" | "until", label: string) => (
    <Field label={label} type="datetime-local" value={local(query[of])} change={(at) => set({ [of]: iso(at) ?? "" })} />
  );
  const isOfEvents = statuses.length > 0;
  return (
    <div class="filters" role="search" aria-label="Filters">
      {isOfEvents && (
        <Select
          label="With a delivery"
          value={query["delivery"] ?? ""}
          options={DELIVERIES}
          change={(delivery) => set({ delivery })}
        />
      )}
      {isOfEvents && choice("status", "Status", "Any status", statuses)}
      {isOfEvents && choice("type", "Type", "Any type", types, loadTypes)}
      {choice("sub", "Subscription", "Any subscription", [...subs.keys()], loadSubs)}
      <Select
        label="Time"
        value={query["time"] ?? ""}
        options={Object.entries(SPANS).map(([value, [text]]) => [value, text] as const)}
        change={(time) => set({ time, since: "", until: "" })}
      />
      {query["time"] === "own" && [moment("since", "From"), moment("until", "To")]}
      <SavedFilters
        keyId={keyId}
        query={query}
        names={[...(isOfEvents ? FILTERS : OF_ATTEMPTS), ...searchNames(!isOfEvents)]}
      />
    </div>
  );
};

interface Saved {
  readonly name: string;
  readonly query: Query;
  /** The API key, where a subscription of it is asked for. */
  readonly keyId?: string;
}

const MOST = 30;
const STORE = "relay.filters";

// The browser may refuse storage to a page in a frame.
const saved = cell<readonly Saved[]>(isPortal ? [] : read());

function read(): readonly Saved[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(STORE) ?? "[]");
    return Array.isArray(stored) ? stored.filter(isSaved) : [];
  } catch {
    return [];
  }
}

function isSaved(one: Partial<Saved> | null): one is Saved {
  return typeof one?.name === "string" && typeof one.query === "object" && one.query !== null;
}

// Another tab may have saved or removed some, or everything of the site was cleared.
if (!isPortal)
  addEventListener("storage", ({ key }) => {
    if (key === STORE || key === null) saved.set(read());
  });

/** Changes what is stored now, so that what another tab has just stored stays. */
function change(make: (stored: readonly Saved[]) => readonly Saved[]): void {
  const next = make(read());
  localStorage.setItem(STORE, JSON.stringify(next));
  saved.set(next);
}

/** Returns the settings that say what a list shows, without the page of it. */
function settingsOf(query: Query): Query {
  const given = Object.entries(query).filter(([name, value]) => name !== "cursor" && value !== "");
  return Object.fromEntries(given.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const same = (a: Query, b: Query): boolean => JSON.stringify(settingsOf(a)) === JSON.stringify(settingsOf(b));

interface SavedFiltersProps extends OfKey {
  readonly query: Query;
  /** The settings that the list has. */
  readonly names: readonly string[];
}

const SavedFilters = ({ keyId, query, names }: SavedFiltersProps) => {
  const all = useCell(saved);
  const [naming, setNaming] = useState(false);
  if (isPortal) return null;
  const now = settingsOf(query);
  const here = all.filter(
    (one) => (one.keyId ?? keyId) === keyId && Object.keys(one.query).every((name) => names.includes(name)),
  );
  const chosen = here.find((one) => same(one.query, now));
  const apply = (name: string): void => {
    const wanted = here.find((one) => one.name === name)?.query ?? {};
    refine({ ...cleared(names), cursor: undefined, ...wanted });
  };
  return [
    here.length > 0 && (
      <Select
        label="Saved filters"
        value={chosen?.name ?? ""}
        options={[["", "None"], ...here.map(({ name }) => [name, name] as const)]}
        change={apply}
      />
    ),
    chosen !== undefined && (
      <Button
        text={`Remove “${chosen.name}”`}
        act={() => change((stored) => stored.filter(({ name }) => name !== chosen.name))}
      />
    ),
    chosen === undefined && Object.keys(now).length > 0 && (
      <Button text="Save this filter…" act={() => setNaming(true)} />
    ),
    naming && <Naming query={now} keyId={keyId} close={() => setNaming(false)} />,
  ];
};

interface NamingProps extends KeyDialogProps {
  readonly query: Query;
}

const Naming = ({ query, keyId, close }: NamingProps) => {
  const form = useForm({ name: "" }, async (texts) => {
    const name = texts.name.trim();
    if (name === "") throw new Error("Give it a name.");
    if (read().filter((one) => one.name !== name).length >= MOST)
      throw new Error(`${MOST} are kept at most. Remove one first.`);
    const one: Saved = { name, query, ...(query["sub"] !== undefined && { keyId }) };
    change((stored) => [...stored.filter(({ name: other }) => other !== name), one]);
    close();
  });
  return (
    <FormDialog title="Save this filter" close={close} form={form} yes="Save">
      <Field
        {...form.of("name", "Name")}
        maxLength={60}
        focus
        hint="It is kept in this browser. A filter of the same name is replaced."
      />
    </FormDialog>
  );
};
