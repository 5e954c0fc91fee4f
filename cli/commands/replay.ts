/** `relay replay`: sends a failed event again, or many at once, through the API. */
import { asking, keyPath } from "../support/ask.ts";
import { API_OPTIONS, type Command, JSON_OPTION, KEY_OPTION } from "../support/command.ts";
import { usage } from "../support/exit.ts";

const MOST = 10_000;
const PER_SECOND = 50;

const REPLAY = {
  usage: "replay [event]",
  about: "send an event again to those where it failed; without an event, all that failed",
  options: {
    ...KEY_OPTION,
    "--subscription <id>": "to this one alone; an event that it never had is made for it",
    "--force": "one event: also where it was delivered",
    "--since <time>": "many: of events accepted at or after (RFC 3339)",
    "--until <time>": "many: of events accepted before (RFC 3339)",
    "--limit <n>": `many: at most so many (${MOST})`,
    "--per-second <n>": `many: how fast they go out (${PER_SECOND})`,
    "--dry-run": "many: only count them",
    ...JSON_OPTION,
    ...API_OPTIONS,
  },
  examples: [
    "relay replay evt_01k --key key_1",
    "relay replay --key key_1 --since 2026-11-20T10:00:00Z --dry-run",
    "relay replay --key key_1 --subscription sub_1 --per-second 10",
  ],
};

const one = asking({
  ...REPLAY,
  ask(given) {
    const alone = ["since", "until", "limit", "per-second"].find((name) => given.text(name) !== undefined);
    const wrong = alone ?? (given.flag("dry-run") ? "dry-run" : undefined);
    if (wrong !== undefined) throw usage(`--${wrong} is for many events, not for one`);
    const body = { subscriptionId: given.text("subscription"), ...(given.flag("force") && { force: true }) };
    return { method: "POST", path: keyPath(given, "events", given.args[0], "replay"), body };
  },
  shape: { deliveries: "number" },
  show: ({ deliveries }, io) => io.print(sentence(deliveries)),
});

const many = asking({
  ...REPLAY,
  ask(given) {
    if (given.flag("force")) throw usage("--force is for one event, not for many");
    const subscription = given.text("subscription");
    const path = keyPath(given, ...(subscription === undefined ? [] : ["webhooks", subscription]), "replay");
    // One request: the relay spreads the deliveries over time itself. A second one would take those that have failed again
    // meanwhile, which are the oldest, before those that have not gone out yet.
    const body = {
      since: given.text("since"),
      until: given.text("until"),
      limit: given.whole("limit", 1, MOST) ?? MOST,
      perSecond: given.whole("per-second", 1, 1_000) ?? PER_SECOND,
      dryRun: given.flag("dry-run"),
    };
    return { method: "POST", path, body };
  },
  shape: { matched: "number", replayed: "number", more: "flag" },
  show({ matched, replayed }, io, given) {
    if (given.flag("dry-run"))
      return io.print(matched === 1 ? "1 delivery would go out again" : `${matched} deliveries would go out again`);
    const seconds = replayed / (given.whole("per-second", 1, 1_000) ?? PER_SECOND);
    io.print(`${sentence(replayed)}${seconds < 2 ? "" : `, over ${Math.ceil(seconds)} s`}`);
  },
  after: ({ more }, io) => (more ? io.say("relay: there are more than that") : undefined),
});

const sentence = (count: number): string =>
  count === 1 ? "1 delivery goes out again" : `${count} deliveries go out again`;

export const commands: readonly Command[] = [
  { ...REPLAY, run: (given, io) => (given.args[0] === undefined ? many : one).run(given, io) },
];
