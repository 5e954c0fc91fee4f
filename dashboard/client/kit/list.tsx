/** Shows lists: tables, which turn into cards where there is no room for columns, page by page. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiAnswer } from "../state/api.ts";
import { Button, notice, problem, skeleton } from "./elements.tsx";
import { moment } from "../state/format.ts";
import type { LoadState } from "../state/load.ts";
import { refine } from "../state/route.ts";

/** The columns of a table under their headings. The first cell of a row is its name. */
type Columns<T> = Readonly<Record<string, (row: T) => ComponentChildren>>;

/**
 * @param keyOf tells rows from each other
 * @param plain whether the cells say by themselves what they are, so that cards need no names and few lines
 */
export const table = <T,>(
  caption: string,
  rows: readonly T[],
  keyOf: (row: T, i: number) => string,
  columns: Columns<T>,
  plain = false,
): VNode => (
  <div class={plain ? "table plain" : "table"} role="region" aria-label={caption} tabIndex={0}>
    <table>
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {Object.keys(columns).map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={keyOf(row, i)}>{cells(columns, row)}</tr>
        ))}
      </tbody>
    </table>
  </div>
);

/** Each cell names its column, for the layout without columns. */
const cells = <T,>(columns: Columns<T>, row: T): readonly VNode[] =>
  Object.entries(columns).map(([name, cell], i) =>
    i === 0 ? (
      <th scope="row" data-name={name}>
        {cell(row)}
      </th>
    ) : (
      <td data-name={name}>{cell(row)}</td>
    ),
  );

type Turn = ((cursor: string | undefined) => void) | undefined;
const show = (cursor: string | undefined, turn: Turn): void => (turn === undefined ? refine({ cursor }) : turn(cursor));

/**
 * Leads to the other pages of a list, where there are any.
 * @param cursor the page that is shown; undefined for the first
 * @param next the page after it; undefined where there is none
 * @param turn shows a page, of a list that is not in the order of time. @default by the address
 */
export const pager = (
  what: string,
  cursor: string | undefined,
  next: string | undefined,
  turn?: Turn,
): VNode | false => {
  return (
    (cursor ?? next) !== undefined && (
      <nav class="pager" aria-label={`Pages of ${what}`}>
        <Button text={turn ? "First" : "Newest"} off={cursor === undefined} act={() => show(undefined, turn)} />
        <Button text={turn ? "More" : "Older"} off={next === undefined} act={() => show(next, turn)} />
      </nav>
    )
  );
};

interface ListViewProps<T> {
  readonly name: string;
  readonly load: LoadState<{ readonly data: readonly T[]; readonly meta: Partial<ApiAnswer<unknown>["meta"]> }>;
  /** @default those that were loaded */
  readonly rows?: readonly T[];
  readonly keyOf: (row: T, i: number) => string;
  readonly columns: Columns<T>;
  readonly plain?: boolean;
  /** Shown where there are no rows. */
  readonly empty?: ComponentChildren;
  /** Stands above the rows. */
  readonly bar?: ComponentChildren;
  /** The page that is shown, as the address says; undefined for the first. */
  readonly cursor?: string | undefined;
  readonly turn?: Turn;
  /** The most rows of a page: one with less may have looked back for long. */
  readonly size?: number;
}

/** Shows what a view has loaded: its rows, or why there are none, and the way to the other pages. */
export function ListView<T>({ name, load, keyOf, columns, plain, size = Infinity, ...more }: ListViewProps<T>) {
  const { data, error, loading, again } = load;
  const { rows = data?.data ?? [] } = more;
  return [
    problem(error, again),
    rows.length === 0 && (
      <Nothing key="nothing" meta={data?.meta} loading={loading} {...more}>
        {more.empty}
      </Nothing>
    ),
    rows.length > 0 && more.bar,
    rows.length > 0 && <div aria-busy={loading}>{table(name, rows, keyOf, columns, plain)}</div>,
    rows.length > 0 && rows.length < size && lookedBack(data?.meta.searchedTo),
    data !== undefined && pager(name, more.cursor, data.meta.nextCursor, more.turn),
  ];
}

/** Says how far back a page has looked that found less than it may show. */
const lookedBack = (to: string | undefined) =>
  to !== undefined && notice("info", `This page has looked back to ${moment(to)}. “Older” looks for more from there.`);

interface NothingProps extends Pick<ListViewProps<unknown>, "cursor" | "turn"> {
  /** Of the page that was read last. */
  readonly meta: Partial<ApiAnswer<unknown>["meta"]> | undefined;
  readonly loading: boolean;
  readonly children: ComponentChildren;
}

/** Stands for a page without rows: it turns the pages by itself until there is a row, the end, or somebody stops it. */
const Nothing = ({ meta, loading, cursor, turn, children }: NothingProps) => {
  const [off, stop] = useState(false);
  const { nextCursor: next, searchedTo: to } = meta ?? {};
  const more = next !== undefined && next !== cursor;
  useEffect(() => {
    if (more && !loading && !off) show(next, turn);
  }, [next, loading, off]);
  if (next === undefined || (!more && !loading)) return loading ? skeleton() : meta && children;
  const far = to === undefined ? "" : ` Nothing found back to ${moment(to)}.`;
  return notice(
    "info",
    <p role="status">{`${off ? "Stopped." : "Looking further back…"}${far}`}</p>,
    <Button text={off ? "Go on" : "Stop"} class="small" act={() => stop(!off)} />,
  );
};
