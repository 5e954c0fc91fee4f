/** `relay events try`, `cancel` and `attempts`: acts on pending deliveries, and lists or exports attempts over all events. */
import { keyPath, pageOf, withQuery } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { type Command, type Given, KEY_OPTIONS, type Option } from "../support/command.ts";
import { ATTEMPT_OPTIONS, attemptQuery } from "../support/events-query.ts";
import { EX_OK, EX_REFUSED, usage } from "../support/exit.ts";
import { exportLines, type ExportFormat, readFormat } from "../support/export-lines.ts";
import { attemptResult, json, printable } from "../support/output.ts";
import { listing } from "../support/plain.ts";
import { rows } from "../support/response-shape.ts";

interface Done {
  readonly eventId: string;
  readonly deliveries: number;
  readonly code?: string;
  readonly detail?: string;
  readonly more?: boolean;
}
interface Found {
  readonly eventId: string;
  readonly type: string;
  readonly subscriptionId: string;
  readonly deliveryStatus: string;
  readonly cycle: number;
  readonly number: number;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly statusCode?: number;
  readonly error?: string;
}

const FOUND = { eventId: "text", subscriptionId: "text", startedAt: "text", durationMs: "number" } as const;
const COLUMNS = [
  ..."id eventId type acceptedAt subscriptionId subscriptionName deliveryStatus".split(" "),
  ..."cycle number startedAt durationMs statusCode error detail".split(" "),
];

/** Most events of one request. */
const MOST = 100;
const ONLY: Option = { flags: "--subscription <id>", about: "only the delivery to this one" };

/** @returns 1 when something was refused */
async function act(given: Given, io: CliEnvironment, action: string, done: string): Promise<number> {
  if (given.args.length === 0) throw usage("which events? Name at least one");
  if (given.args.length > MOST) throw usage(`at most ${MOST} events at once`);
  const subscriptionId = given.text("subscription");
  const deliveries = given.args.map((eventId) => ({
    eventId,
    ...(subscriptionId !== undefined && { subscriptionId }),
  }));
  const answer = await (await openApi(given, io)).ask("POST", keyPath(given, "deliveries"), { action, deliveries });
  const all = rows<Done>(answer, { eventId: "text", deliveries: "number" });
  if (given.flag("json")) io.print(json(all));
  else
    for (const one of all) {
      if (one.deliveries > 0 || one.code === undefined)
        io.say(
          `relay: ${printable(one.eventId)}: ${one.deliveries} ${done}${one.more ? ", and there may be more" : ""}`,
        );
      if (one.code !== undefined)
        io.say(`relay: ${printable(one.eventId)}: ${printable(one.detail ?? one.code)} (${printable(one.code)})`);
    }
  return all.some(({ code }) => code !== undefined) ? EX_REFUSED : EX_OK;
}

const tryNow: Command = {
  usage: "events try [...events]",
  about: "make the next attempt of pending deliveries now",
  options: [ONLY, ...KEY_OPTIONS],
  examples: ["relay events try evt_01k --key key_1"],
  run: (given, io) => act(given, io, "attempt", "tried now"),
};

const cancel: Command = {
  usage: "events cancel [...events]",
  about: "cancel pending deliveries; relay replay with --subscription sends them all the same",
  options: [ONLY, ...KEY_OPTIONS],
  examples: ["relay events cancel evt_01k evt_01m --key key_1 --subscription sub_1"],
  run: (given, io) => act(given, io, "cancel", "cancelled"),
};

const attemptsPath = (given: Given, page: ReturnType<typeof pageOf>): string =>
  withQuery(keyPath(given, "attempts"), { ...attemptQuery(given), ...page });

async function exportAttempts(given: Given, io: CliEnvironment, format: ExportFormat): Promise<void> {
  if (given.text("limit") !== undefined) throw usage("--limit is for a list: --format writes all that are found");
  if (given.flag("json")) throw usage("--json is for a list: --format ndjson writes JSON lines");
  const found = {
    what: "attempt",
    columns: COLUMNS,
    shape: FOUND,
    path: (page: ReturnType<typeof pageOf>) => attemptsPath(given, page),
  };
  await exportLines(await openApi(given, io), format, found, given.text("cursor"), io);
}

const listed = listing<Found>({
  usage: "events attempts",
  about: "list attempts over all events of a key, newest event first, of the newest cycle of each delivery",
  options: [
    { flags: "--subscription <id>", about: "those to one subscription" },
    { flags: "--since <time>", about: "of events accepted at or after (RFC 3339)" },
    { flags: "--until <time>", about: "of events accepted before (RFC 3339)" },
    ...ATTEMPT_OPTIONS,
    { flags: "--limit <n>", about: "about so many, 1 to 200 (50)" },
    { flags: "--cursor <cursor>", about: "go on where the last list or export ended" },
    { flags: "--format <format>", about: "ndjson or csv: write all that are found, a line each, in place of a list" },
    ...KEY_OPTIONS,
  ],
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
    return format === undefined ? listed.run(given, io) : exportAttempts(given, io, format);
  },
};

export const commands: readonly Command[] = [tryNow, cancel, attempts];
