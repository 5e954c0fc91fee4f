/** `relay replay`: sends a failed event again, or many at once, through the API. */
import type { CliEnvironment } from "../support/environment.ts";
import { keyPath } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION, KEY_OPTION } from "../support/command.ts";
import { usage } from "../support/exit.ts";
import { json } from "../support/output.ts";
import { record } from "../support/response-shape.ts";

interface Moved {
  readonly matched: number;
  readonly replayed: number;
  readonly more: boolean;
}

const MOST = 10_000;
const PER_SECOND = 50;
const MANY_ONLY = ["since", "until", "limit", "per-second"];

const replay: Command = {
  usage: "replay [event]",
  about: "send an event again to those where it failed; without an event, all that failed",
  options: [
    KEY_OPTION,
    { flags: "--subscription <id>", about: "to this one alone; an event that it never had is made for it" },
    { flags: "--force", about: "one event: also where it was delivered" },
    { flags: "--since <time>", about: "many: of events accepted at or after (RFC 3339)" },
    { flags: "--until <time>", about: "many: of events accepted before (RFC 3339)" },
    { flags: "--limit <n>", about: `many: at most so many (${MOST})` },
    { flags: "--per-second <n>", about: `many: how fast they go out (${PER_SECOND})` },
    { flags: "--dry-run", about: "many: only count them" },
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  examples: [
    "relay replay evt_01k --key key_1",
    "relay replay --key key_1 --since 2026-11-20T10:00:00Z --dry-run",
    "relay replay --key key_1 --subscription sub_1 --per-second 10",
  ],
  run: (given, io) => (given.args[0] === undefined ? many(given, io) : one(given, io, given.args[0])),
};

async function one(given: Given, io: CliEnvironment, id: string): Promise<void> {
  const alone = [
    ...MANY_ONLY.filter((name) => given.text(name) !== undefined),
    ...(given.flag("dry-run") ? ["dry-run"] : []),
  ];
  if (alone.length > 0) throw usage(`--${alone[0]} is for many events, not for one`);
  const body = { subscriptionId: given.text("subscription"), ...(given.flag("force") && { force: true }) };
  const answer = await (await openApi(given, io)).ask("POST", keyPath(given, "events", id, "replay"), body);
  const { deliveries } = record<{ readonly deliveries: number }>(answer, { deliveries: "number" });
  if (given.flag("json")) io.print(json(answer.data));
  else io.print(sentence(deliveries));
}

async function many(given: Given, io: CliEnvironment): Promise<void> {
  if (given.flag("force")) throw usage("--force is for one event, not for many");
  const subscription = given.text("subscription");
  const path = keyPath(given, ...(subscription === undefined ? [] : ["webhooks", subscription]), "replay");
  const limit = given.whole("limit", 1, MOST) ?? MOST;
  const perSecond = given.whole("per-second", 1, 1_000) ?? PER_SECOND;
  const api = await openApi(given, io);
  // One request: the relay spreads the deliveries over time itself. A second one would take those that have failed again
  // meanwhile, which are the oldest, before those that have not gone out yet.
  const body = {
    since: given.text("since"),
    until: given.text("until"),
    perSecond,
    limit,
    dryRun: given.flag("dry-run"),
  };
  const moved = record<Moved>(await api.ask("POST", path, body), {
    matched: "number",
    replayed: "number",
    more: "flag",
  });
  tell(given, io, moved, perSecond);
}

function tell(given: Given, io: CliEnvironment, moved: Moved, perSecond: number): void {
  if (given.flag("json")) io.print(json(moved));
  else if (given.flag("dry-run"))
    io.print(moved.matched === 1 ? "1 delivery would go out again" : `${moved.matched} deliveries would go out again`);
  else io.print(`${sentence(moved.replayed)}${over(moved.replayed / perSecond)}`);
  if (moved.more) io.say("relay: there are more than that");
}

const sentence = (count: number): string =>
  count === 1 ? "1 delivery goes out again" : `${count} deliveries go out again`;

/** How long it takes at the pace that was asked for. */
const over = (seconds: number): string => (seconds < 2 ? "" : `, over ${Math.ceil(seconds)} s`);

export const commands: readonly Command[] = [replay];
