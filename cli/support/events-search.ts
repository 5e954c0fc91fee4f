/** Searches events and attempts by the options of `relay events`, and writes all that is found, a line each. */
import { keyPath, type Page, PAGES_A_LINE, type Shape, shaped, withQuery } from "./ask.ts";
import { openApi } from "./client.ts";
import type { CliEnvironment } from "./environment.ts";
import type { Given, Options } from "./command.ts";
import { printable } from "./output.ts";

export const ATTEMPT_OPTIONS: Options = {
  "--status-code <code>": "what an attempt was answered, 100 to 599",
  "--error <stage>": "where an attempt failed: dns, guard, connect, tls, timeout, …",
  "--min-duration <ms>": "an attempt took at least so long",
};

export const SEARCH_OPTIONS: Options = {
  "--status <status>": "of the event as a whole: pending, delivered, failed, cancelled or unmatched",
  "--delivery <state>": "those of which a delivery is pending, delivered or failed",
  "--type <name>": "event name",
  "--subscription <id>": "those that one subscription wanted",
  "--since <time>": "accepted at or after (RFC 3339)",
  "--until <time>": "accepted before (RFC 3339)",
  "--id <prefix>": "how the id begins",
  "--text <text>": "a part of the data, as it was published",
  ...ATTEMPT_OPTIONS,
};

/** @throws ExitError for a number that is none */
const attemptQuery = (given: Given): Readonly<Record<string, string | number | undefined>> => ({
  since: given.text("since"),
  until: given.text("until"),
  error: given.text("error"),
  subscriptionId: given.text("subscription"),
  statusCode: given.whole("status-code", 100, 599),
  minDurationMs: given.whole("min-duration", 0, 3_600_000),
});

/** @throws ExitError for a number that is none */
export const attemptsPath = (given: Given, page: Page): string =>
  withQuery(keyPath(given, "attempts"), { ...attemptQuery(given), ...page });

/** @throws ExitError for a number that is none */
export function eventsPath(given: Given, page: Page): string {
  const own = ["status", "delivery", "type", "id", "text"].map((name) => [name, given.text(name)] as const);
  return withQuery(keyPath(given, "events"), { ...Object.fromEntries(own), ...attemptQuery(given), ...page });
}

type Line = Readonly<Record<string, string | number | undefined>>;

interface Exported {
  /** The name of one of them, in the singular. */
  readonly what: string;
  readonly columns: readonly string[];
  /** That of one of them. */
  readonly shape: Shape;
  path(given: Given, page: Page): string;
}

type ExportFormat = "ndjson" | "csv";
/** @throws ExitError 64 */
export const readFormat = (given: Given): ExportFormat | undefined => given.choice("format", ["ndjson", "csv"]);

const LARGEST_PAGE = 200;

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

/** Asks for page after page, from `--cursor` on. */
export async function exportLines(
  given: Given,
  io: CliEnvironment,
  format: ExportFormat,
  { what, columns, shape, path }: Exported,
): Promise<void> {
  const first = given.text("cursor");
  const api = await openApi(given, io);
  let cursor = first;
  let count = 0;
  const counted = (): string => (count === 1 ? `1 ${what}` : `${count} ${what}s`);
  if (format === "csv" && cursor === undefined) io.print(columns.join(","));
  for (let page = 1; ; page++) {
    try {
      const answer = await api.ask("GET", path(given, { limit: LARGEST_PAGE, cursor }));
      for (const line of shaped(answer, [shape]) as readonly Line[]) {
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
