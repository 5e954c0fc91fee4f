/** Builds tables, which turn into cards where there is no room for columns, and the link to the next page. */
import type { ComponentChildren, VNode } from "preact";
import { refine } from "../state/route.ts";

interface TableRow {
  readonly key: string;
  readonly cells: readonly ComponentChildren[];
}

/**
 * @param columns their headings; the first cell of a row is its name
 * @param plain whether the cells say by themselves what they are, so that cards need no names and few lines
 */
export const table = (caption: string, columns: readonly string[], rows: readonly TableRow[], plain = false): VNode => (
  <div class={plain ? "table plain" : "table"} role="region" aria-label={caption} tabIndex={0}>
    <table>
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {columns.map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ key, cells }) => (
          <tr key={key}>
            {cells.map((one, i) =>
              i === 0 ? (
                <th scope="row" {...named(columns[i])}>
                  {one}
                </th>
              ) : (
                <td {...named(columns[i])}>{one}</td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
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
  (cursor ?? next) !== undefined && (
    <nav class="pager" aria-label={`Pages of ${what}`}>
      <button type="button" disabled={cursor === undefined} onClick={() => turn(undefined)}>
        {first}
      </button>
      <button type="button" disabled={next === undefined} onClick={() => next !== undefined && turn(next)}>
        {older}
      </button>
    </nav>
  );
