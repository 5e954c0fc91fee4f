/** `relay events …`: shows and erases the events of an API key with their deliveries and attempts, through the API. */
import { commands as deliveries } from "./deliveries.ts";
import { commands as types } from "./event-types.ts";
import { commands as exports } from "./events-export.ts";
import { keyPath, PAGE_OPTIONS, pageOf, withQuery } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { type Command, KEY_OPTIONS } from "../support/command.ts";
import { eventsPath, SEARCH_OPTIONS } from "../support/events-query.ts";
import { attemptName, fields, json, printable, printTable } from "../support/output.ts";
import { deleting, listing, sayMore } from "../support/plain.ts";
import { record, rows, type Shape } from "../support/response-shape.ts";

interface Head {
  readonly id: string;
  readonly type: string;
  readonly status: string;
  readonly createdAt: string;
  readonly acceptedAt: string;
}
interface ShownAttempt {
  readonly cycle: number;
  readonly number: number;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly statusCode?: number;
  readonly error?: string;
  readonly detail?: string;
}
interface ShownDelivery {
  readonly subscriptionId: string;
  readonly status: string;
  readonly reason?: string;
  readonly cycle: number;
  readonly nextAttemptAt?: string;
  readonly attempts: readonly ShownAttempt[];
}

type Shown = Head & { readonly data: unknown; readonly deliveries: readonly ShownDelivery[] };
const HEAD: Shape<Head> = { id: "text", type: "text", status: "text", createdAt: "text", acceptedAt: "text" };

const list = listing<Head>({
  usage: "events list",
  about: "list or search the events of a key, newest first",
  options: [...SEARCH_OPTIONS, ...PAGE_OPTIONS, ...KEY_OPTIONS],
  ask: (given) => ({ path: eventsPath(given, pageOf(given)) }),
  shape: HEAD,
  columns: { id: "id", type: "type", status: "status", accepted: "acceptedAt" },
  none: (_, { searchedTo }) => `no such events${searchedTo === undefined ? "" : ` since ${printable(searchedTo)}`}`,
});

const show: Command = {
  usage: "events show <event>",
  about: "show an event, its deliveries and every attempt",
  options: [
    { flags: "--limit <n>", about: "at most so many deliveries, 1 to 200 (200)" },
    { flags: "--cursor <cursor>", about: "go on with the deliveries where the last page ended" },
    ...KEY_OPTIONS,
  ],
  async run(given, io) {
    const path = withQuery(keyPath(given, "events", given.args[0]), pageOf(given));
    const answer = await (await openApi(given, io)).ask("GET", path);
    const event = record<Shown>(answer, { ...HEAD, data: "any", deliveries: "list" });
    const deliveries = rows<ShownDelivery>(
      { ...answer, data: event.deliveries },
      { subscriptionId: "text", attempts: "list" },
    );
    sayMore(answer, io, "there are more deliveries");
    if (given.flag("json")) return io.print(json(event));
    io.print(
      fields([
        ["id", event.id],
        ["type", event.type],
        ["status", event.status],
        ["created", event.createdAt],
        ["accepted", event.acceptedAt],
      ]),
    );
    io.print(`data  ${json(event.data)}`);
    for (const delivery of deliveries) io.print(`\n${describe(delivery)}`);
  },
};

/** One delivery and its attempts as text. */
function describe(delivery: ShownDelivery): string {
  const { subscriptionId, status, reason, nextAttemptAt } = delivery;
  const next = nextAttemptAt === undefined ? "" : `, next attempt at ${nextAttemptAt}`;
  const head = printable(`${subscriptionId}  ${status}${reason === undefined ? "" : ` (${reason})`}${next}`);
  if (delivery.attempts.length === 0) return `${head}\n  not tried yet`;
  const cells = delivery.attempts.map((attempt) => [
    attemptName(attempt.cycle, attempt.number),
    attempt.startedAt,
    `${attempt.durationMs} ms`,
    attempt.statusCode === undefined
      ? [attempt.error, attempt.detail].filter((part) => part !== undefined).join(": ")
      : String(attempt.statusCode),
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

export const commands: readonly Command[] = [list, show, erase, ...deliveries, ...exports, ...types];
