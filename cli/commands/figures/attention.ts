/** `relay attention`: shows what needs attention, why and what helps, and acknowledges it, through the API. */
import { asking, each, keyPath, PAGE_OPTIONS, pageOf, sayMore, type Shaped, withQuery } from "../../support/ask.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION } from "../../support/command.ts";
import { type CliEnvironment, paint } from "../../support/environment.ts";
import { usage } from "../../support/exit.ts";
import { printable } from "../../support/output.ts";

const FAILURES = { ...each("text", "error?", "detail?", "first", "last"), ...each("number", "statusCode?", "count") };
const ITEM = {
  ...each("text", "id", "state", "severity", "reason", "help", "keyId?", "subscriptionName?", "since?", "endsAt?"),
  "failures?": [FAILURES],
  "acknowledged?": each("text", "at", "by?"),
} as const;
type Item = Shaped<typeof ITEM>;

const OPTIONS = {
  "--key <key>": "id of the API key (all keys, and the relay itself)",
  ...JSON_OPTION,
  ...API_OPTIONS,
};

const list = asking({
  usage: "attention",
  about: "show what needs attention, the worst first, why, since when, and what helps",
  options: { "--subscription <id>": "of this one alone", ...PAGE_OPTIONS, ...OPTIONS },
  examples: ["relay attention", "relay attention --key key_1 --json"],
  ask(given) {
    const subscriptionId = given.text("subscription");
    if (given.text("key") === undefined) {
      if (subscriptionId !== undefined) throw usage("--subscription needs the --key that it belongs to");
      return { path: withQuery("/relay/attention", pageOf(given)) };
    }
    return { path: withQuery(keyPath(given, "attention"), { subscriptionId }) };
  },
  goesOn: true,
  shape: [ITEM],
  show(items, io) {
    if (items.length === 0) io.say("relay: nothing needs attention");
    else io.print(items.map((item) => shown(item, io)).join("\n\n"));
  },
  after: (_, io, answer) => sayMore(answer, io),
});

function shown(item: Item, io: CliEnvironment): string {
  const { id, state, severity, keyId, subscriptionName, since, endsAt, reason, help, failures = [] } = item;
  const known = item.acknowledged;
  const words = [
    state.replaceAll("_", " "),
    keyId,
    subscriptionName,
    since && `since ${since}`,
    endsAt && `until ${endsAt}`,
    known && `(acknowledged by ${known.by ?? "the operator"})`,
  ];
  const head = printable(words.filter((word) => word !== undefined).join("  "));
  const kinds = failures.map(
    ({ count, statusCode, error, detail, last }) =>
      `${count} × ${[statusCode ?? error, detail].filter((part) => part !== undefined).join(": ")}, the last at ${last}`,
  );
  const lines = [reason, `→ ${help}`, ...kinds, id];
  const colour = known !== undefined ? "dim" : severity === "error" ? "red" : "yellow";
  return [paint(io.stdout, colour, head), ...lines.map((line) => `  ${printable(line)}`)].join("\n");
}

const pathOf = (given: Given): string =>
  given.text("key") === undefined ? "/relay/attention/acknowledge" : keyPath(given, "attention", "acknowledge");

const acknowledge = asking({
  usage: "attention acknowledge <id>",
  about: "say that somebody knows of it: it stands until something new comes to it",
  options: { "--undo": "take that back", ...OPTIONS },
  examples: ["relay attention acknowledge sub_01k.down --key key_1"],
  ask: (given) => ({
    method: "POST",
    path: pathOf(given),
    body: { id: given.args[0], acknowledged: !given.flag("undo") },
  }),
  shape: { id: "text", acknowledged: "flag" },
  show: ({ id, acknowledged }, io) =>
    io.say(`relay: ${printable(id)} is ${acknowledged ? "acknowledged" : "not acknowledged any more"}`),
});

export const commands: readonly Command[] = [list, acknowledge];
