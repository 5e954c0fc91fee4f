/** `relay subscriptions test-filter`, `transforms` and `test-transform`: what a filter or a transform makes of an event. */
import { asking, keyPath, type Shaped } from "../support/ask.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION, KEY_OPTIONS, type Options } from "../support/command.ts";
import { EX_OK, EX_REFUSED, usage } from "../support/exit.ts";
import { jsonOption, readJsonOption } from "../support/inputs.ts";
import { printable, printTable, textOf } from "../support/output.ts";

const EVENT_OPTIONS: Options = {
  "--event <event>": "a stored event of the key",
  "--type <type>": "the type of an event that is not stored",
  "--data <json>": "its data: JSON, @file, or - for stdin (null when left out)",
};

/**
 * Returns the request that tests something on the event that these options name. All JSON goes out byte for byte as it was
 * given. @param other names what is tested in place of the stored one, as JSON
 * @throws ExitError 64
 */
async function test(given: Given, io: CliEnvironment, what: "filter" | "transform", other: string | undefined) {
  const [eventId, type, data] = [given.text("event"), given.text("type"), given.text("data")];
  if ((eventId === undefined) === (type === undefined)) throw usage("give either --event, or --type and --data");
  if (eventId !== undefined && data !== undefined) throw usage("--data belongs to --type, not to --event");
  const event =
    eventId === undefined
      ? `"event":{"type":${JSON.stringify(type)},"data":${await readJsonOption("data", data ?? "null", io)}}`
      : `"eventId":${JSON.stringify(eventId)}`;
  const body = `{${event}${other === undefined ? "" : `,"${what}":${other}`}}`;
  return { method: "POST", path: keyPath(given, "webhooks", given.args[0], what, "test"), body };
}

const CONDITION = { at: "text", condition: "any", matched: "flag", decided: "flag", found: "text" } as const;
const TESTED = {
  matched: "flag",
  typeMatched: "flag",
  filterMatched: "flag",
  type: "text",
  conditions: [CONDITION],
} as const;

const testFilter = asking({
  usage: "subscriptions test-filter <subscription>",
  about: "test the filter of a subscription, or another one, on an event; ends with 1 when it does not match",
  options: {
    ...EVENT_OPTIONS,
    "--filter <json>": "a filter in place of the stored one: JSON or @file; none for no filter",
    ...KEY_OPTIONS,
  },
  examples: [
    "relay subscriptions test-filter sub_1 --key key_1 --event evt_01m813fva7j7t5t8rj63v1rpak",
    `relay subscriptions test-filter sub_1 --key key_1 --type deposit:paid --data '{"amount":5}' --filter @filter.json`,
  ],
  ask(given, io) {
    const filter = given.text("filter");
    return test(given, io, "filter", filter === "none" ? "null" : filter && jsonOption("filter", filter, io));
  },
  shape: TESTED,
  show: (tested, io) => io.print(describe(tested)),
  after: ({ matched }) => (matched ? EX_OK : EX_REFUSED),
});

function describe({ matched, typeMatched, type, conditions }: Shaped<typeof TESTED>): string {
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

const transforms = asking({
  usage: "subscriptions transforms",
  about: "list the transforms that a subscription may name",
  options: { ...JSON_OPTION, ...API_OPTIONS },
  ask: () => ({ path: "/transforms" }),
  shape: [{ name: "text" }],
  show(all, io) {
    if (all.length === 0) io.say("relay: the config has no transforms");
    for (const { name } of all) io.print(printable(name));
  },
});

const testTransform = asking({
  usage: "subscriptions test-transform <subscription>",
  about: "print the body that the transform of a subscription makes of an event; ends with 1 when it makes none",
  options: {
    ...EVENT_OPTIONS,
    "--transform <name>": "a transform in place of the subscription's own; none for no transform",
    ...KEY_OPTIONS,
  },
  examples: [
    "relay subscriptions test-transform sub_1 --key key_1 --event evt_01m813fva7j7t5t8rj63v1rpak",
    `relay subscriptions test-transform sub_1 --key key_1 --type deposit:paid --data '{"amount":5}' --transform slack`,
  ],
  ask(given, io) {
    const name = given.text("transform");
    return test(given, io, "transform", name === "none" ? "null" : name && JSON.stringify(name));
  },
  shape: { made: "flag", body: "any", error: "any" },
  show: ({ body, error }, io) => io.print(printable(textOf(body ?? `makes no body: ${textOf(error ?? "")}`))),
  after: ({ made }) => (made ? EX_OK : EX_REFUSED),
});

export const commands: readonly Command[] = [testFilter, transforms, testTransform];
