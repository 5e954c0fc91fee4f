/** `relay events …`: shows, exports and erases the events of an API key with their deliveries and attempts. */
import { commands as deliveries } from "./deliveries.ts";
import { commands as types } from "./event-types.ts";
import {
  asking,
  deleting,
  each,
  keyPath,
  listing,
  PAGE_OPTIONS,
  pageOf,
  type Shaped,
  sayMore,
  withQuery,
} from "../support/ask.ts";
import { API_OPTIONS, type Command, KEY_OPTION, KEY_OPTIONS } from "../support/command.ts";
import { eventsPath, exportLines, readFormat, SEARCH_OPTIONS } from "../support/events-search.ts";
import { attemptName, fields, json, printable, printTable } from "../support/output.ts";

const HEAD = each("text", "id", "type", "status", "createdAt", "acceptedAt");
const ATTEMPT = {
  ...each("number", "cycle", "number", "durationMs", "statusCode?"),
  ...each("text", "startedAt", "error?", "detail?"),
};
const DELIVERY = {
  ...each("text", "subscriptionId", "status", "reason?", "nextAttemptAt?"),
  ...each([ATTEMPT], "attempts"),
};

/** Returns `7 of 8 delivered, 1 waits`. */
function counted({ deliveryCounts: counts }: { readonly deliveryCounts?: Counts | undefined }): string {
  if (counts === undefined) return "very many";
  const { delivered, failed, pending, total } = counts;
  const parts = [failed > 0 && `${failed} failed`, pending > 0 && `${pending} ${pending === 1 ? "waits" : "wait"}`];
  return [`${delivered} of ${total} delivered`, ...parts.filter((part) => part !== false)].join(", ");
}
type Counts = Readonly<Record<"delivered" | "failed" | "pending" | "total", number>>;

const list = listing({
  usage: "events list",
  about: "list or search the events of a key, newest first",
  options: { ...SEARCH_OPTIONS, ...PAGE_OPTIONS, ...KEY_OPTIONS },
  examples: ["relay events list --key key_1 --delivery failed"],
  ask: (given) => ({ path: eventsPath(given, pageOf(given)) }),
  shape: { ...HEAD, "deliveryCounts?": each("number", "delivered", "failed", "pending", "total") },
  columns: { id: "id", type: "type", status: "status", accepted: "acceptedAt", deliveries: counted },
  none: (_, { searchedTo }) => `no such events${searchedTo === undefined ? "" : ` since ${printable(searchedTo)}`}`,
});

const show = asking({
  usage: "events show <event>",
  about: "show an event, its deliveries and every attempt",
  options: {
    "--limit <n>": "at most so many deliveries, 1 to 200 (200)",
    "--cursor <cursor>": "go on with the deliveries where the last page ended",
    ...KEY_OPTIONS,
  },
  ask: (given) => ({ path: withQuery(keyPath(given, "events", given.args[0]), pageOf(given)) }),
  shape: { ...HEAD, data: "any", deliveries: [DELIVERY] },
  show({ id, type, status, createdAt, acceptedAt, data, deliveries: all }, io) {
    io.print(fields(Object.entries({ id, type, status, created: createdAt, accepted: acceptedAt })));
    io.print(`data  ${json(data)}`);
    for (const delivery of all) io.print(`\n${describe(delivery)}`);
  },
  after: (_, io, answer) => sayMore(answer, io, "there are more deliveries"),
});

/** Returns one delivery and its attempts as text. */
function describe({ subscriptionId, status, reason, nextAttemptAt, attempts }: Shaped<typeof DELIVERY>): string {
  const next = nextAttemptAt === undefined ? "" : `, next attempt at ${nextAttemptAt}`;
  const head = printable(`${subscriptionId}  ${status}${reason === undefined ? "" : ` (${reason})`}${next}`);
  if (attempts.length === 0) return `${head}\n  not tried yet`;
  const cells = attempts.map(({ cycle, number, startedAt, durationMs, statusCode, error, detail }) => [
    attemptName(cycle, number),
    startedAt,
    `${durationMs} ms`,
    statusCode ?? [error, detail].filter((part) => part !== undefined).join(": "),
  ]);
  const lines = printTable(["attempt", "at", "took", "result"], cells).split("\n");
  return [head, ...lines.map((line) => `  ${line}`)].join("\n");
}

const erase = deleting({
  usage: "events delete <event>",
  about: "erase an event with its data and its deliveries, pending ones too; there is no way back",
  options: KEY_OPTIONS,
  examples: ["relay events delete evt_01k --key key_1"],
  ask: (given) => ({ method: "DELETE", path: keyPath(given, "events", given.args[0]) }),
  done: "is erased",
});

const exportAll: Command = {
  usage: "events export",
  about: "write all events that are found, newest first, a line each: without their data",
  options: {
    "--format <format>": "ndjson or csv (ndjson)",
    "--cursor <cursor>": "go on where an export ended",
    ...SEARCH_OPTIONS,
    ...KEY_OPTION,
    ...API_OPTIONS,
  },
  examples: [
    "relay events export --key key_1 --status failed --since 2026-01-01T00:00:00Z > failed.ndjson",
    "relay events export --key key_1 --format csv --status-code 500 > refused.csv",
  ],
  async run(given, io) {
    const found = { what: "event", columns: Object.keys(HEAD), shape: HEAD, path: eventsPath };
    await exportLines(given, io, readFormat(given) ?? "ndjson", found);
  },
};

export const commands: readonly Command[] = [list, show, erase, ...deliveries, exportAll, ...types];
