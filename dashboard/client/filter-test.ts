/** Tests the filter of a subscription on an event, and shows which conditions decided. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { table } from "./data-table.ts";
import { form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { errorOf, Field } from "./fields.ts";
import { notice, problem, useAction } from "./elements.ts";
import { useEventChoice } from "./event-choice.ts";
import type { Filter, FilterTested, Subscription } from "./shapes.ts";

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
export const FilterVerdict = part(({ tested }: { readonly tested: FilterTested }) => {
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
  return el.div(
    { ref: result, class: "stack", tabIndex: -1, role: "status" },
    notice(matched ? "good" : "warn", el.p(null, el.strong(null, matched ? "Matches. " : "Does not match. "), why)),
    conditions.length > 0 &&
      table(
        "Conditions",
        ["Condition", "Met", "Found", "Decided"],
        conditions.map(({ at, condition, matched: met, found, decided }) => ({
          key: at,
          cells: [
            el.code({ title: at }, JSON.stringify(condition)),
            met ? "yes" : "no",
            el.code(null, found),
            decided ? "yes" : "",
          ],
        })),
      ),
  );
});

/** The tester on the page of a subscription: any event of the key, the stored filter or a changed one. */
export const FilterTest = part(({ keyId, one }: { readonly keyId: string; readonly one: Subscription }) => {
  const stored = filterText(one.filter);
  const event = useEventChoice(keyId);
  const [text, setText] = useState(stored);
  const [tested, setTested] = useState<FilterTested | undefined>(undefined);
  useEffect(() => setText(stored), [stored]);
  const { run, busy, error } = useAction(async () => {
    setTested(undefined);
    setTested(await testFilter(keyId, one.id, event.eventId, readFilter(text) ?? null));
  });
  return el.section(
    { class: "card", "aria-labelledby": "filter-test" },
    el.h2({ id: "filter-test" }, "Test the filter"),
    el.p(null, "Shows whether an event matches, and which conditions decide. Nothing is sent or changed."),
    form({
      submit: run,
      children: [
        event.fields(error),
        Field({
          label: "Filter to test",
          value: text,
          change: setText,
          lines: 4,
          optional: true,
          hint: "As it is stored. Change it here to try another one.",
          error: errorOf(error, "filter"),
        }),
        problem(error ?? event.error),
        el.div(
          { class: "row" },
          el.button({ type: "submit", disabled: busy || event.eventId === "" }, busy ? "Testing…" : "Test"),
          event.offer("Offer the newest events"),
        ),
      ],
    }),
    tested !== undefined && FilterVerdict({ tested }),
  );
});
