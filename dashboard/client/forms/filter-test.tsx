/** Tests the filter of a subscription on an event, and shows which conditions decided. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { table } from "../kit/data-table.tsx";
import { Form } from "../kit/dialog.tsx";
import { errorOf, Field } from "../kit/fields.tsx";
import { notice, problem, useAction } from "../kit/elements.tsx";
import { useEventChoice } from "./event-choice.tsx";
import type { Filter, FilterTested, Subscription } from "../shapes.ts";

/** Brings the tester of the page into sight, with the focus on its first field. */
export function toFilterTest(): void {
  const card = document.querySelector("[aria-labelledby=filter-test]");
  card?.scrollIntoView();
  card?.querySelector<HTMLElement>("input, select, textarea")?.focus();
}

export const filterText = (filter: Filter | undefined): string =>
  filter === undefined ? "" : JSON.stringify(filter, null, 2);

/** Returns the filter of a field; `undefined` when it is empty. @throws Error when it is not JSON */
export function readFilter(text: string): Filter | undefined {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as Filter;
  } catch {
    throw new Error("The filter is not JSON.");
  }
}

/** @param filter `null` for none; left out: the stored one */
export const testFilter = async (
  keyId: string,
  subscriptionId: string,
  eventId: string,
  filter?: Filter | null,
): Promise<FilterTested> => {
  const route = path("/api-keys/{}/webhooks/{}/filter/test", [keyId, subscriptionId]);
  return (await ask<FilterTested>("POST", route, { body: { eventId, filter } })).data;
};

/** What came of a test. */
export const FilterVerdict = ({ tested }: { readonly tested: FilterTested }) => {
  const { matched, typeMatched, filterMatched, type, filter, conditions } = tested;
  const result = useRef<HTMLDivElement>(null);
  useEffect(() => result.current?.focus(), [tested]);
  const why = !typeMatched
    ? `No event name of the subscription matches ${type}.`
    : filter === null
      ? "Its event names match, and there is no filter."
      : filterMatched
        ? "Its event names and the filter match."
        : "Its event names match, the filter does not.";
  return (
    <div ref={result} class="stack" tabIndex={-1} role="status">
      {notice(
        matched ? "good" : "warn",
        <p>
          <strong>{matched ? "Matches. " : "Does not match. "}</strong>
          {why}
        </p>,
      )}
      {conditions.length > 0 &&
        table(
          "Conditions",
          ["Condition", "Met", "Found", "Decided"],
          conditions.map(({ at, condition, matched: met, found, decided }) => ({
            key: at,
            cells: [
              <code title={at}>{JSON.stringify(condition)}</code>,
              met ? "yes" : "no",
              <code>{found}</code>,
              decided ? "yes" : "",
            ],
          })),
        )}
    </div>
  );
};

/** The tester on the page of a subscription: any event of the key, the stored filter or a changed one. */
export const FilterTest = ({ keyId, one }: { readonly keyId: string; readonly one: Subscription }) => {
  const stored = filterText(one.filter);
  const event = useEventChoice(keyId);
  const [text, setText] = useState(stored);
  const [tested, setTested] = useState<FilterTested | undefined>(undefined);
  useEffect(() => setText(stored), [stored]);
  const { run, busy, error } = useAction(async () => {
    setTested(undefined);
    setTested(await testFilter(keyId, one.id, event.eventId, readFilter(text) ?? null));
  });
  return (
    <section class="card" aria-labelledby="filter-test">
      <h2 id="filter-test">Test the filter</h2>
      <p>Shows whether an event matches, and which conditions decide. Nothing is sent or changed.</p>
      <Form submit={run}>
        {event.fields(error)}
        <Field
          label="Filter to test"
          value={text}
          change={setText}
          lines={4}
          optional
          hint="As it is stored. Change it here to try another one."
          error={errorOf(error, "filter")}
        />
        {problem(error ?? event.error)}
        <div class="row">
          <button type="submit" disabled={busy || event.eventId === ""}>
            {busy ? "Testing…" : "Test"}
          </button>
          {event.offer("Offer the newest events")}
        </div>
      </Form>
      {tested !== undefined && <FilterVerdict tested={tested} />}
    </section>
  );
};
