/** Keeps the filters and the search of a list under a name, in this browser, so that one need not set them again. */
import { useState } from "preact/hooks";
import { cell, useCell } from "../state/cell.ts";
import { Dialog, Form } from "./dialog.tsx";
import { Field, Select } from "./fields.tsx";
import { isPortal } from "../state/page-facts.ts";
import { refine } from "../state/route.ts";

type Query = Readonly<Record<string, string>>;

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

/** What a list shows of all, without the page of it. */
function settingsOf(query: Query): Query {
  const given = Object.entries(query).filter(([name, value]) => name !== "cursor" && value !== "");
  return Object.fromEntries(given.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const same = (a: Query, b: Query): boolean => JSON.stringify(settingsOf(a)) === JSON.stringify(settingsOf(b));

interface SavedFiltersProps {
  readonly keyId: string;
  readonly query: Query;
  /** The settings that the list has. */
  readonly names: readonly string[];
}

export const SavedFilters = ({ keyId, query, names }: SavedFiltersProps) => {
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
    const cleared = Object.fromEntries(names.map((one) => [one, undefined]));
    refine({ ...cleared, cursor: undefined, ...wanted });
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
      <button type="button" onClick={() => change((stored) => stored.filter(({ name }) => name !== chosen.name))}>
        {`Remove “${chosen.name}”`}
      </button>
    ),
    chosen === undefined && Object.keys(now).length > 0 && (
      <button type="button" onClick={() => setNaming(true)}>
        Save this filter…
      </button>
    ),
    naming && <Naming query={now} keyId={keyId} close={() => setNaming(false)} />,
  ];
};

interface NamingProps {
  readonly query: Query;
  readonly keyId: string;
  readonly close: () => void;
}

const Naming = ({ query, keyId, close }: NamingProps) => {
  const [name, setName] = useState("");
  const [error, setError] = useState<string | undefined>(undefined);
  const save = (): void => {
    const wanted = name.trim();
    if (wanted === "") return setError("Give it a name.");
    if (read().filter((one) => one.name !== wanted).length >= MOST)
      return setError(`${MOST} are kept at most. Remove one first.`);
    const one: Saved = { name: wanted, query, ...(query["sub"] !== undefined && { keyId }) };
    change((stored) => [...stored.filter(({ name: other }) => other !== wanted), one]);
    close();
  };
  return (
    <Dialog title="Save this filter" close={close}>
      <Form submit={save}>
        <Field
          label="Name"
          value={name}
          change={setName}
          maxLength={60}
          focus
          error={error}
          hint="It is kept in this browser. A filter of the same name is replaced."
        />
        <div class="row end">
          <button type="submit" class="main">
            Save
          </button>
        </div>
      </Form>
    </Dialog>
  );
};
