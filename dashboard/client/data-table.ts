/** Builds tables, which turn into cards where there is no room for columns, and the link to the next page. */
import type { ComponentChildren, VNode } from "preact";
import { el } from "./dom.ts";
import { refine } from "./route.ts";

interface TableRow {
  readonly key: string;
  readonly cells: readonly ComponentChildren[];
}

/**
 * @param columns their headings; the first cell of a row is its name
 * @param plain whether the cells say by themselves what they are, so that cards need no names and few lines
 */
export const table = (caption: string, columns: readonly string[], rows: readonly TableRow[], plain = false): VNode =>
  el.div(
    { class: plain ? "table plain" : "table", role: "region", "aria-label": caption, tabIndex: 0 },
    el.table(
      null,
      el.caption({ class: "hidden" }, caption),
      el.thead(null, el.tr(null, ...columns.map((name) => el.th({ key: name, scope: "col" }, name)))),
      el.tbody(
        null,
        ...rows.map(({ key, cells }) =>
          el.tr(
            { key },
            ...cells.map((one, i) =>
              i === 0 ? el.th({ scope: "row", ...named(columns[i]) }, one) : el.td(named(columns[i]), one),
            ),
          ),
        ),
      ),
    ),
  );

/** Names the column of a cell, for the layout without columns. */
const named = (name: string | undefined): object => ({ "data-name": name });

/**
 * Leads to the other pages of a list, where there are any.
 * @param cursor the page that is shown; undefined for the first
 * @param next the page after it; undefined where there is none
 * @param turn shows a page. @default by the address
 */
export const pager = (
  what: string,
  cursor: string | undefined,
  next: string | undefined,
  turn = (to: string | undefined): void => refine({ cursor: to }),
  [first, older] = ["Newest", "Older"],
): VNode | false =>
  (cursor ?? next) !== undefined &&
  el.nav(
    { class: "pager", "aria-label": `Pages of ${what}` },
    el.button({ type: "button", disabled: cursor === undefined, onClick: () => turn(undefined) }, first),
    el.button({ type: "button", disabled: next === undefined, onClick: () => next !== undefined && turn(next) }, older),
  );
