/** Searches the events of a key by id, data and attempts, and writes what is found into a file. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Button, showToast, useAction } from "./elements.tsx";
import { Field, Select } from "./fields.tsx";
import { count } from "../state/format.ts";
import { refine } from "../state/route.ts";
import type { OfKey, Query, RelayEvent } from "../shapes.ts";

type Asked = Readonly<Record<string, string | undefined>>;

const STAGES = ["dns", "guard", "connect", "tls", "timeout", "reset", "protocol", "token", "transform"] as const;
/** The settings in the address. */
const OF_ATTEMPTS = ["code", "error", "took"] as const;
const NAMES = ["id", "text", ...OF_ATTEMPTS] as const;
/** Settings of a search, of events or of attempts. */
export const searchNames = (attempts: boolean): readonly string[] => (attempts ? OF_ATTEMPTS : NAMES);
/** Returns the change of the address that takes settings out of it. */
export const cleared = (names: readonly string[]): Readonly<Record<string, undefined>> =>
  Object.fromEntries(names.map((name) => [name, undefined]));
export const NO_SEARCH = cleared(NAMES);

export const isSearch = (query: Query): boolean => NAMES.some((name) => query[name] !== undefined);

/** Returns the parameters of the API that the settings mean. */
export const searched = ({ id, text, code, error, took }: Query): Asked => ({
  id,
  text,
  statusCode: code,
  error,
  minDurationMs: took,
});

interface SearchProps {
  readonly query: Query;
  /** Searches a list of attempts: only by what is known of those. */
  readonly attempts?: boolean;
}

/** Asks when the form is sent, not with each letter: one answer may read thousands of events. */
export const Search = ({ query, attempts = false }: SearchProps) => {
  const [draft, setDraft] = useState<Query>(query);
  const change = (name: string) => (value: string) => setDraft((before) => ({ ...before, [name]: value }));
  const field = (name: string, label: string, inputMode?: "numeric") => (
    <Field label={label} value={draft[name] ?? ""} change={change(name)} {...(inputMode && { inputMode })} />
  );
  const send = (event: Event): void => {
    event.preventDefault();
    const given = NAMES.map((name) => [name, draft[name]?.trim() || undefined] as const);
    refine({ ...Object.fromEntries(given), cursor: undefined });
  };
  return (
    <details open={isSearch(query)}>
      <summary>{attempts ? "Search by answer, stage or time taken" : "Search by id, data or attempt"}</summary>
      <form onSubmit={send} role="search" aria-label="Search">
        <div class="filters many">
          {!attempts && field("id", "Id begins with")}
          {!attempts && field("text", "Data contains")}
          {field("code", "Answered with", "numeric")}
          <Select
            label="Failed at"
            value={draft["error"] ?? ""}
            options={[["", "Any stage"], ...STAGES.map((one) => [one, one] as const)]}
            change={change("error")}
          />
          {field("took", "Took at least, ms", "numeric")}
        </div>
        <div class="row">
          <button type="submit">Search</button>
        </div>
      </form>
    </details>
  );
};

const MOST = 10_000;
const COLUMNS = ["id", "type", "status", "createdAt", "acceptedAt"] as const;
/** RFC 4180. None of these values needs quotes; what a spreadsheet would take for a formula begins with an apostrophe. */
const cell = (text: string): string => (/^[=+\-@＝＋－＠]/.test(text) ? `'${text}` : text);

/** Writes all that is found, newest first, up to a number that the limits allow, unless the list is left before. */
export const Export = ({ keyId, asks }: OfKey & { readonly asks: Asked }) => {
  const [lines, setLines] = useState(0);
  async function write(left: AbortSignal): Promise<void> {
    const text = [COLUMNS.join(",")];
    setLines(0);
    let cursor: string | undefined;
    do {
      const route = path("/api-keys/{}/events", [keyId], { ...asks, cursor, limit: "200" });
      const page = await ask<readonly RelayEvent[]>("GET", route, { signal: left });
      for (const event of page.data) text.push(COLUMNS.map((name) => cell(String(event[name]))).join(","));
      setLines(text.length - 1);
      cursor = page.meta.nextCursor;
    } while (cursor !== undefined && text.length <= MOST);
    save(`${keyId}-events.csv`, `${text.join("\r\n")}\r\n`);
    if (cursor !== undefined)
      showToast(`The newest ${count(text.length - 1)} are in the file. relay events export writes all of them.`);
  }
  const { run, busy } = useAction((left) =>
    write(left).catch((error: unknown) => {
      if (!left.aborted) showToast((error as Error).message);
    }),
  );
  return <Button text={busy ? `${count(lines)} so far…` : "Export as CSV"} off={busy} act={run} />;
};

function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // Not at once: some browsers begin to read it later.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
