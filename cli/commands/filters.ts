/** `relay subscriptions test-filter`: asks the relay whether an event matches a filter, and shows why. */
import { keyPath } from "../support/api-path.ts";
import { KEY_OPTIONS } from "../support/command.ts";
import { EX_OK, EX_REFUSED } from "../support/exit.ts";
import { jsonOption } from "../support/json-option.ts";
import { printable, printTable } from "../support/output.ts";
import { asking } from "../support/plain.ts";
import { EVENT_OPTIONS, eventFields } from "../support/tested-event.ts";

interface Condition {
  readonly at: string;
  readonly condition: Readonly<Record<string, unknown>>;
  readonly matched: boolean;
  readonly decided: boolean;
  readonly found: string;
}

interface Tested {
  readonly matched: boolean;
  readonly typeMatched: boolean;
  readonly filterMatched: boolean;
  readonly type: string;
  readonly conditions: readonly Condition[];
}

const testFilter = asking<Tested>({
  usage: "subscriptions test-filter <subscription>",
  about: "test the filter of a subscription, or another one, on an event; ends with 1 when it does not match",
  options: [
    ...EVENT_OPTIONS,
    { flags: "--filter <json>", about: "a filter in place of the stored one: JSON or @file; none for no filter" },
    ...KEY_OPTIONS,
  ],
  examples: [
    "relay subscriptions test-filter sub_1 --key key_1 --event evt_01m813fva7j7t5t8rj63v1rpak",
    `relay subscriptions test-filter sub_1 --key key_1 --type deposit:paid --data '{"amount":5}' --filter @filter.json`,
  ],
  async ask(given, io) {
    const filter = given.text("filter");
    // Both go out byte for byte as they were given.
    const parts = [
      await eventFields(given, io),
      ...(filter === undefined ? [] : [`"filter":${filter === "none" ? "null" : jsonOption("filter", filter, io)}`]),
    ];
    const path = keyPath(given, "webhooks", given.args[0], "filter", "test");
    return { method: "POST", path, body: `{${parts.join(",")}}` };
  },
  shape: { matched: "flag", typeMatched: "flag", filterMatched: "flag", conditions: "list" },
  show: (tested, io) => io.print(describe(tested)),
  after: ({ matched }) => (matched ? EX_OK : EX_REFUSED),
});

function describe({ matched, typeMatched, type, conditions }: Tested): string {
  const why = typeMatched ? "" : `: no event name of the subscription matches ${type}`;
  const head = printable(`${matched ? "matches" : "does not match"}${why}`);
  if (conditions.length === 0) return head;
  const cells = conditions.map(({ at, condition, matched: met, decided, found }) => [
    at,
    met ? "yes" : "no",
    decided ? "yes" : "",
    found,
    JSON.stringify(condition),
  ]);
  return `${head}\n${printTable(["at", "met", "decided", "found", "condition"], cells)}`;
}

export const commands = [testFilter];
