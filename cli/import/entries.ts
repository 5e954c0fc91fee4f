/**
 * Splits a file of subscriptions into its entries, each with the place that a message can name. The file is JSON (a list, or
 * the answer of an API with the list in it) or NDJSON (one object a line). No message repeats what the file says, because it
 * holds secrets.
 */
import { lines } from "../../core/lib/json.ts";
import { EX_DATAERR, ExitError } from "../support/exit.ts";
import { jsonIn, objectOf } from "../support/inputs.ts";

export interface FileEntry {
  /** `item 3` of a list, `line 3` of NDJSON. */
  readonly place: string;
  /** `undefined` where the line is no JSON object. */
  readonly fields: Readonly<Record<string, unknown>> | undefined;
}

interface FileEntries {
  readonly entries: readonly FileEntry[];
  /** True when the file says that it is one page of a list, and that others follow. */
  readonly more: boolean;
}

/** @throws ExitError 65 for a text that has no entry at all */
export function readEntries(text: string): FileEntries {
  const whole = jsonIn(text);
  const list = whole === undefined ? undefined : listOf(whole);
  if (list !== undefined) {
    const entries = list.map((value, i) => ({ place: `item ${i + 1}`, fields: objectOf(value) }));
    return { entries, more: saysMore(whole) };
  }
  const entries = Array.from(lines(text), (line) => ({
    place: `line ${line.number}`,
    fields: objectOf(jsonIn(line.text)),
  }));
  if (entries.length > 0 && entries.every(({ fields }) => fields === undefined))
    throw new ExitError(EX_DATAERR, "the file is neither a JSON list nor NDJSON: one JSON object a line");
  return { entries, more: false };
}

/** The entries of a list, of `{data: […]}` (Relaybox, Svix) and of `{data: {content: […]}}` (Convoy). */
function listOf(value: unknown): readonly unknown[] | undefined {
  if (Array.isArray(value)) return value;
  const data = objectOf(value)?.["data"];
  if (Array.isArray(data)) return data;
  const content = objectOf(data)?.["content"];
  return Array.isArray(content) ? content : undefined;
}

/** As the lists of Svix (`done`) and Convoy (`data.pagination`) say it. */
function saysMore(whole: unknown): boolean {
  const list = objectOf(whole);
  const pagination = objectOf(objectOf(list?.["data"])?.["pagination"]);
  return list?.["done"] === false || pagination?.["has_next_page"] === true;
}
