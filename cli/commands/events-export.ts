/** `relay events export`: writes all events that are found, page by page, as NDJSON or CSV. */
import { openApi } from "../support/client.ts";
import { API_OPTIONS, KEY_OPTION, type Command } from "../support/command.ts";
import { eventsPath, SEARCH_OPTIONS } from "../support/events-query.ts";
import { EXPORT_CURSOR, exportLines, readFormat } from "../support/export-lines.ts";

const exportEvents: Command = {
  usage: "events export",
  about: "write all events that are found, newest first, a line each: without their data",
  options: [
    { flags: "--format <format>", about: "ndjson or csv (ndjson)" },
    EXPORT_CURSOR,
    ...SEARCH_OPTIONS,
    KEY_OPTION,
    ...API_OPTIONS,
  ],
  examples: [
    "relay events export --key key_1 --status failed --since 2026-01-01T00:00:00Z > failed.ndjson",
    "relay events export --key key_1 --format csv --status-code 500 > refused.csv",
  ],
  async run(given, io) {
    const format = readFormat(given) ?? "ndjson";
    const events = {
      what: "event",
      columns: ["id", "type", "status", "createdAt", "acceptedAt"],
      shape: { id: "text", type: "text", status: "text", createdAt: "text", acceptedAt: "text" },
      path: (page: Parameters<typeof eventsPath>[1]) => eventsPath(given, page),
    } as const;
    await exportLines(await openApi(given, io), format, events, given.text("cursor"), io);
  },
};

export const commands: readonly Command[] = [exportEvents];
