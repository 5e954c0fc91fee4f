/** Decides what needs attention, why, since when, and what helps. Pure: others read the facts and show what comes of them. */
import { nextStep } from "../lib/reason.ts";
import { isoTime } from "../lib/time.ts";
import type { AttemptError } from "../model/attempt.ts";
import { overlapNoticeAt } from "../model/notice.ts";
import type { EndpointHealth, Subscription } from "../model/subscription.ts";

const OF_ENDPOINTS = [
  "down",
  "disabled",
  "held",
  "failing",
  "rate_limited",
  "certificate_ending",
  "secret_ending",
] as const;
const OF_RELAY = ["publishing_refused", "source_away", "transport_away", "not_ready"] as const;
/** The worst come first. */
export const ATTENTION_STATES = [...OF_ENDPOINTS, ...OF_RELAY] as const;

/** Deliveries of one endpoint whose last attempt failed alike: at the same stage, with the same status, in the same words. */
export interface FailureGroup {
  readonly error?: AttemptError | undefined;
  readonly statusCode?: number | undefined;
  /** Why, without addresses; for those that were ended without an attempt, what ended them. */
  readonly detail?: string | undefined;
  readonly count: number;
  /** Epoch ms of the first and of the last such attempt. */
  readonly first: number;
  readonly last: number;
  /** The newest one. */
  readonly example: { readonly eventId: string; readonly ordinal: string };
}

type Judged = Pick<Subscription, "id" | "status" | "disabledReason" | "updatedAt" | "rateLimit" | "secrets">;

export interface EndpointFacts {
  readonly sub: Judged & Pick<Subscription, "clientCertificate">;
  readonly health: EndpointHealth;
  /** Its circuit breaker is open, on whichever node. */
  readonly open: boolean;
  /** Those that failed for good lately, counted up to a bound. */
  readonly failed: { readonly count: number; readonly more: boolean };
  /** How the newest of them, and of those that are tried again, failed; the newest group first. */
  readonly groups: readonly FailureGroup[];
  /** Failed deliveries that hold up those behind them. Epoch ms of the oldest and of the newest. */
  readonly held?: { readonly since: number; readonly newest: number; readonly waiting: number } | undefined;
  /** What waits for so long that its own rate may be why. `since`: epoch ms at which the oldest was due. */
  readonly backlog?: { readonly since: number; readonly waiting: number } | undefined;
}

interface Finding {
  readonly state: (typeof ATTENTION_STATES)[number];
  readonly severity: "error" | "warning";
  readonly reason: string;
  readonly help: string;
  /** Epoch ms. */
  readonly since?: number | undefined;
  readonly nextAttemptAt?: number | undefined;
  readonly endsAt?: number | undefined;
  readonly waiting?: number;
  readonly failed?: EndpointFacts["failed"];
  readonly failures?: readonly FailureGroup[];
  /** What is wrong, in short: an acknowledgement stands until there is one that it does not name. */
  readonly marks: readonly string[];
}
export interface Attention extends Finding {
  /** The subscription, or the part of the relay. */
  readonly about: string;
}

/** Failed attempts in a row from which on an endpoint is failing. */
const SOME_FAILURES = 3;
/** How long a delivery waits behind the endpoint's own rate before that is said, ms. */
export const RATE_WAIT_MS = 60_000;
/** How long before its end a client certificate is spoken of, ms. */
const CERTIFICATE_MS = 14 * 86_400_000;

/** Returns all that needs attention of an endpoint. One that a person has disabled needs nothing. */
export function endpointAttention(facts: EndpointFacts, now: number): readonly Attention[] {
  const { sub } = facts;
  const found =
    sub.status === "disabled"
      ? [disabled(facts)]
      : [
          facts.open ? down(facts) : failing(facts),
          held(facts),
          rate(facts, now),
          certificate(sub, now),
          secret(sub, now),
        ];
  return found.flatMap((one) => (one === undefined ? [] : [{ ...one, about: sub.id }]));
}

const ENABLE = "See that it works (a test event), enable it, then replay what has failed.";
const DISABLED: Readonly<Record<string, readonly [reason: string, help: string]>> = {
  endpoint_gone: ["The receiver answered 410: it is gone for good", `Correct its URL or delete it. ${ENABLE}`],
  receiver_disabled: ["The receiver asked for it (webhook-delivery: disable)", `Ask its owner why. ${ENABLE}`],
  endpoint_failing: ["It has only failed for days", ENABLE],
  record_damaged: ["Its stored record is damaged", "Delete it and create it again, then replay what has failed."],
};

function disabled({ sub, failed, groups: failures }: EndpointFacts): Finding | undefined {
  const [reason, help] = DISABLED[sub.disabledReason ?? ""] ?? [];
  if (reason === undefined || help === undefined) return undefined;
  const since = sub.updatedAt;
  return { state: "disabled", severity: "error", reason, help, since, failed, failures, marks: [`since ${since}`] };
}

function down({ health, failed, groups: failures }: EndpointFacts): Finding {
  const { failures: count, failingSince: since, restsUntil: nextAttemptAt } = health;
  const many = count > 1 ? `${count} attempts in a row have failed` : "It only fails";
  const next = nextAttemptAt === undefined ? "" : `; the next try is at ${isoTime(nextAttemptAt)}`;
  const reason = `${many}${lastOf(failures)}${next}`;
  const marks = [`since ${since ?? 0}`, ...failures.map(markOf)];
  const help = helpFor(failures[0]);
  return { state: "down", severity: "error", reason, help, since, nextAttemptAt, failed, failures, marks };
}

function failing({ health, failed, groups: failures }: EndpointFacts): Finding | undefined {
  const { failures: count, failingSince } = health;
  if (count < SOME_FAILURES && failed.count === 0) return undefined;
  const { count: over, more } = failed;
  const many = `${over}${more ? " or more" : ""} ${over === 1 ? "delivery has" : "deliveries have"} failed`;
  const reason = `${over > 0 ? many : `${count} attempts in a row have failed`}${lastOf(failures)}`;
  const help = `${helpFor(failures[0])}${over > 0 ? " Then replay what has failed." : ""}`;
  const first = Math.min(failingSince ?? Infinity, ...failures.map((one) => one.first));
  const since = Number.isFinite(first) ? first : undefined;
  const marks = ["fails", ...failures.map(markOf)];
  return { state: "failing", severity: "warning", reason, help, since, failed, failures, marks };
}

function held({ held: by }: EndpointFacts): Finding | undefined {
  if (by === undefined) return undefined;
  const { since, waiting, newest } = by;
  const reason = `A failed delivery holds up the ${waiting} behind it`;
  const help = "Replay the failed delivery once its receiver takes it, or skip it.";
  return { state: "held", severity: "error", reason, help, since, waiting, marks: [`held ${newest}`] };
}

function rate({ sub: { rateLimit }, backlog, open }: EndpointFacts, now: number): Finding | undefined {
  if (backlog === undefined || rateLimit === undefined || open || now - backlog.since < RATE_WAIT_MS) return undefined;
  const { since, waiting } = backlog;
  const minutes = Math.ceil(waiting / rateLimit.perSecond / 60);
  const reason = `${waiting} wait behind its own rate limit: at ${rateLimit.perSecond} a second they take ${minutes} min`;
  const help = "Raise its rateLimit, or wait.";
  return { state: "rate_limited", severity: "warning", reason, help, since, waiting, marks: ["waits"] };
}

function certificate({ clientCertificate }: EndpointFacts["sub"], now: number): Finding | undefined {
  const endsAt = clientCertificate?.notAfter;
  if (endsAt === undefined || endsAt - now > CERTIFICATE_MS) return undefined;
  const [severity, ends] = endsAt <= now ? (["error", "has ended"] as const) : (["warning", "ends soon"] as const);
  const help = "Give it a new certificate and key (clientCertificate).";
  const marks = [`${ends} ${endsAt}`];
  return { state: "certificate_ending", severity, reason: `Its client certificate ${ends}`, help, endsAt, marks };
}

function secret({ secrets: [newest, old] }: EndpointFacts["sub"], now: number): Finding | undefined {
  const endsAt = old?.expiresAt ?? 0;
  if (newest === undefined || endsAt <= now) return undefined;
  const since = overlapNoticeAt(newest.createdAt, endsAt - newest.createdAt);
  if (now < since) return undefined;
  const help = "See that the receiver verifies with the new secret.";
  const reason = "The old secret stops signing soon";
  return { state: "secret_ending", severity: "warning", reason, help, since, endsAt, marks: [`ends ${endsAt}`] };
}

const PARTS: Readonly<Record<string, readonly [state: (typeof OF_RELAY)[number], help: string]>> = {
  source: ["source_away", "See that its broker runs and takes the user; the relay connects again by itself."],
  transport: ["transport_away", "See that its broker runs and takes the user; deliveries wait, and use up no attempt."],
  publishing: ["publishing_refused", "Make room, or let the backlog drain: publishers are asked to try again."],
};

/** Decides about a part of the relay that is not ready. @param since epoch ms from which on it was seen so */
export function partAttention(about: string, words: string, required: boolean, since: number): Attention {
  const [state, help] = PARTS[about.replace(/:.*/, "")] ?? ["not_ready", "See the log of this node."];
  const severity = required || state === "publishing_refused" ? "error" : "warning";
  const reason = words === "" ? "It is not ready" : words;
  return { state, severity, about, reason, help, since, marks: [same(reason)] };
}

/** Numbers in words change from one attempt to the next: how long something took, a port of the client. */
const same = (words: string): string => words.replaceAll(/\d+/g, "#");
/** Names a kind of failure. */
export const markOf = ({ error, statusCode, detail }: Pick<FailureGroup, "error" | "statusCode" | "detail">): string =>
  `${error ?? ""} ${statusCode ?? ""} ${same(detail ?? "")}`;

/** Says it without its advice, which is the help. */
function lastOf([last]: readonly FailureGroup[]): string {
  if (last === undefined) return "";
  const { statusCode, error, detail = "" } = last;
  const words = detail.replace(`: ${nextStep(detail)}`, "");
  const stage = statusCode === undefined ? (error ?? "") : `HTTP ${statusCode}`;
  const parts = words.toLowerCase().includes(stage.toLowerCase()) ? [words] : [stage, words];
  return `, the last one: ${parts.filter((part) => part !== "").join(": ")}`;
}

function helpFor({ error, statusCode = 0 }: Partial<FailureGroup> = {}): string {
  return HELP[error ?? statusCode] ?? HELP[Math.floor(statusCode / 100)] ?? "See the attempts of its deliveries.";
}
/** By the stage at which attempts fail, or by the status, or by its first digit. */
const HELP: Readonly<Record<AttemptError | number, string>> = {
  dns: "See that the host name of its URL is right and known to public name servers.",
  guard: "Use a URL with a public address, or have the operator allow this one (guard.allow).",
  connect: "See that the receiver runs, and that host and port of its URL are right.",
  tls: "Install a valid certificate at the receiver, with its whole chain.",
  timeout: "Have the receiver answer at once and work later, or raise its timeoutMs.",
  reset: "See the log of the receiver: it cuts the connection.",
  protocol: "See what the receiver answers: it is not HTTP as it should be.",
  token: "See that its oauth2 settings are right, and that the token server answers.",
  transform: "Mend its transform; transform/test shows what it makes of an event.",
  3: "Use the address that the receiver redirects to: redirects are not followed.",
  4: "See why the receiver refuses these events: the body of its answer may say it.",
  5: "See the log of the receiver: it fails by itself.",
  401: "Give the receiver the credentials or the secret that it expects.",
  403: "Give the receiver the credentials or the secret that it expects.",
  404: "Correct the path of its URL.",
  405: "Correct its URL: the receiver takes no POST there.",
  429: "Set a rateLimit that the receiver can take.",
};

/** Orders what is shown together: the worst first, the oldest first among those. */
export const byWorst = (a: Attention, b: Attention): number =>
  ATTENTION_STATES.indexOf(a.state) - ATTENTION_STATES.indexOf(b.state) || (a.since ?? 0) - (b.since ?? 0);
