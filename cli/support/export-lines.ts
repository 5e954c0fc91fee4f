/** Writes all that the API finds, page by page, a line each, as NDJSON or CSV. */
import type { Api } from "./client.ts";
import type { CliEnvironment } from "./environment.ts";
import type { Given, Option } from "./command.ts";
import { printable } from "./output.ts";
import { rows, type Shape } from "./response-shape.ts";

type Line = Readonly<Record<string, string | number | undefined>>;

interface Exported {
  /** What one of them is called, in the singular. */
  readonly what: string;
  readonly columns: readonly string[];
  /** The fields that each of them has. */
  readonly shape: Shape<Line>;
  path(page: { readonly limit: number; readonly cursor: string | undefined }): string;
}

export type ExportFormat = "ndjson" | "csv";
/** @throws ExitError 64 */
export const readFormat = (given: Given): ExportFormat | undefined => given.choice("format", ["ndjson", "csv"]);
export const EXPORT_CURSOR: Option = { flags: "--cursor <cursor>", about: "go on where an export ended" };

const LARGEST_PAGE = 200;
/** After so many pages one line on stderr says how far it is. */
const PAGES_A_LINE = 25;

/** RFC 4180. What a spreadsheet would take for a formula begins with an apostrophe. */
function cell(value: string | number | undefined): string {
  const text = String(value ?? "");
  const safe = /^[=+\-@＝＋－＠\t\r\n]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const FORMATS: Readonly<Record<ExportFormat, (line: Line, columns: readonly string[]) => string>> = {
  ndjson: (line, columns) => JSON.stringify(Object.fromEntries(columns.map((name) => [name, line[name]]))),
  csv: (line, columns) => columns.map((name) => cell(line[name])).join(","),
};

export async function exportLines(
  api: Api,
  format: ExportFormat,
  { what, columns, shape, path }: Exported,
  first: string | undefined,
  io: CliEnvironment,
): Promise<void> {
  let cursor = first;
  let count = 0;
  const counted = (): string => (count === 1 ? `1 ${what}` : `${count} ${what}s`);
  if (format === "csv" && cursor === undefined) io.print(columns.join(","));
  for (let page = 1; ; page++) {
    try {
      const answer = await api.ask("GET", path({ limit: LARGEST_PAGE, cursor }));
      for (const line of rows<Line>(answer, shape)) {
        io.print(printable(FORMATS[format](line, columns)));
        count++;
      }
      cursor = answer.nextCursor;
      if (cursor === undefined) break;
      if (page % PAGES_A_LINE === 0) io.say(`relay: ${counted()}, back to ${printable(answer.searchedTo ?? "")}`);
    } catch (error) {
      // The one that was given is known, and may be what is wrong.
      if (cursor !== first && cursor !== undefined)
        io.say(`relay: it stopped there: --cursor ${printable(cursor)} goes on`);
      throw error;
    }
  }
  io.say(`relay: ${counted()}`);
}
