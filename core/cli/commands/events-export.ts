/** `relay events export`: writes all events that are found, page by page, as NDJSON or CSV. */
import { openApi } from "../support/client.ts";
import { API_OPTIONS, KEY_OPTION, type Command } from "../support/command.ts";
import { eventsPath, SEARCH_OPTIONS } from "../support/events-query.ts";
import { printable } from "../support/output.ts";
import { rows, type Shape } from "../support/response-shape.ts";

interface Line {
  readonly id: string;
  readonly type: string;
  readonly status: string;
  readonly createdAt: string;
  readonly acceptedAt: string;
}
const LINE: Shape<Line> = { id: "text", type: "text", status: "text", createdAt: "text", acceptedAt: "text" };
const COLUMNS = ["id", "type", "status", "createdAt", "acceptedAt"] as const;

const LARGEST_PAGE = 200;
/** After so many pages one line on stderr says how far it is. */
const PAGES_A_LINE = 25;

/** RFC 4180. What a spreadsheet would take for a formula begins with an apostrophe. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const FORMATS: Readonly<Record<"ndjson" | "csv", (line: Line) => string>> = {
  ndjson: (line) => printable(JSON.stringify(Object.fromEntries(COLUMNS.map((name) => [name, line[name]])))),
  csv: (line) => printable(COLUMNS.map((name) => cell(line[name])).join(",")),
};

const exportEvents: Command = {
  usage: "events export",
  about: "write all events that are found, newest first, a line each: without their data",
  options: [
    { flags: "--format <format>", about: "ndjson or csv (ndjson)" },
    { flags: "--cursor <cursor>", about: "go on where an export ended" },
    ...SEARCH_OPTIONS,
    KEY_OPTION,
    ...API_OPTIONS,
  ],
  examples: [
    "relay events export --key key_1 --status failed --since 2026-01-01T00:00:00Z > failed.ndjson",
    "relay events export --key key_1 --format csv --status-code 500 > refused.csv",
  ],
  async run(given, io) {
    const name = given.choice("format", ["ndjson", "csv"]) ?? "ndjson";
    const format = FORMATS[name];
    const api = await openApi(given, io);
    let cursor = given.text("cursor");
    if (name === "csv" && cursor === undefined) io.print(COLUMNS.join(","));
    let count = 0;
    for (let page = 1; ; page++) {
      try {
        const answer = await api.ask("GET", eventsPath(given, { limit: LARGEST_PAGE, cursor }));
        for (const line of rows<Line>(answer, LINE)) {
          io.print(format(line));
          count++;
        }
        cursor = answer.nextCursor;
        if (cursor === undefined) break;
        if (page % PAGES_A_LINE === 0) io.say(`relay: ${count} events, back to ${printable(answer.searchedTo ?? "")}`);
      } catch (error) {
        if (cursor !== undefined) io.say(`relay: it stopped there: --cursor ${printable(cursor)} goes on`);
        throw error;
      }
    }
    io.say(`relay: ${count === 1 ? "1 event" : `${count} events`}`);
  },
};

export const commands: readonly Command[] = [exportEvents];
