/** `relay events try`, `cancel` and `attempts`: acts on pending deliveries, and lists or exports attempts over all events. */
import { asking, each, keyPath, listing, pageOf } from "../support/ask.ts";
import { type Command, KEY_OPTIONS } from "../support/command.ts";
import { ATTEMPT_OPTIONS, attemptsPath, exportLines, readFormat } from "../support/events-search.ts";
import { EX_OK, EX_REFUSED, usage } from "../support/exit.ts";
import { attemptResult, printable } from "../support/output.ts";

/** Most events of one request. */
const MOST = 100;

/** Makes a command that does the same to each event. It ends with 1 when something was refused. */
const acting = (action: string, done: string, command: Pick<Command, "usage" | "about" | "examples">): Command =>
  asking({
    ...command,
    options: { "--subscription <id>": "only the delivery to this one", ...KEY_OPTIONS },
    ask(given) {
      if (given.args.length === 0) throw usage("which events? Name at least one");
      if (given.args.length > MOST) throw usage(`at most ${MOST} events at once`);
      const subscriptionId = given.text("subscription");
      const deliveries = given.args.map((eventId) => ({ eventId, subscriptionId }));
      return { method: "POST", path: keyPath(given, "deliveries"), body: { action, deliveries } };
    },
    shape: [{ eventId: "text", deliveries: "number", "code?": "text", "detail?": "text", "more?": "flag" }],
    show(all, io) {
      for (const { eventId, deliveries, code, detail, more } of all) {
        const say = (text: string): void => io.say(`relay: ${printable(`${eventId}: ${text}`)}`);
        if (deliveries > 0 || code === undefined) say(`${deliveries} ${done}${more ? ", and there may be more" : ""}`);
        if (code !== undefined) say(`${detail ?? code} (${code})`);
      }
    },
    after: (all) => (all.some(({ code }) => code !== undefined) ? EX_REFUSED : EX_OK),
  });

const tryNow = acting("attempt", "tried now", {
  usage: "events try [...events]",
  about: "make the next attempt of pending deliveries now",
  examples: ["relay events try evt_01k --key key_1"],
});

const cancel = acting("cancel", "cancelled", {
  usage: "events cancel [...events]",
  about: "cancel pending deliveries; relay replay with --subscription sends them all the same",
  examples: ["relay events cancel evt_01k evt_01m --key key_1 --subscription sub_1"],
});

const FOUND = {
  ...each("text", "eventId", "subscriptionId", "deliveryStatus?", "startedAt", "error?"),
  ...each("number", "durationMs", "statusCode?"),
};
const COLUMNS = [
  ..."id eventId type acceptedAt subscriptionId subscriptionName deliveryStatus".split(" "),
  ..."cycle number startedAt durationMs statusCode error detail".split(" "),
];

const listed = listing({
  usage: "events attempts",
  about: "list attempts over all events of a key, newest event first, of the newest cycle of each delivery",
  options: {
    "--subscription <id>": "those to one subscription",
    "--since <time>": "of events accepted at or after (RFC 3339)",
    "--until <time>": "of events accepted before (RFC 3339)",
    ...ATTEMPT_OPTIONS,
    "--limit <n>": "about so many, 1 to 200 (50)",
    "--cursor <cursor>": "go on where the last list or export ended",
    "--format <format>": "ndjson or csv: write all that are found, a line each, in place of a list",
    ...KEY_OPTIONS,
  },
  examples: [
    "relay events attempts --key key_1 --status-code 503",
    "relay events attempts --key key_1 --error timeout --format csv > timeouts.csv",
  ],
  ask: (given) => ({ path: attemptsPath(given, pageOf(given)) }),
  shape: FOUND,
  columns: {
    at: "startedAt",
    result: attemptResult,
    took: ({ durationMs }) => `${durationMs} ms`,
    event: "eventId",
    subscription: "subscriptionId",
    delivery: "deliveryStatus",
  },
  none: () => "no such attempts",
  more: ({ searchedTo }) =>
    `there may be more${searchedTo === undefined ? "" : ` (looked back to ${printable(searchedTo)})`}`,
});
const attempts: Command = {
  ...listed,
  async run(given, io) {
    const format = readFormat(given);
    if (format === undefined) return listed.run(given, io);
    if (given.text("limit") !== undefined) throw usage("--limit is for a list: --format writes all that are found");
    if (given.flag("json")) throw usage("--json is for a list: --format ndjson writes JSON lines");
    await exportLines(given, io, format, { what: "attempt", columns: COLUMNS, shape: FOUND, path: attemptsPath });
  },
};

export const commands: readonly Command[] = [tryNow, cancel, attempts];
