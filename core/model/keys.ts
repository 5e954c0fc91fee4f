/**
 * The shelves: every key that the relay writes is made here.
 *
 * Key ids may hold `:`, which separates parts, so it is written `~` in keys. All times are 13 digits of epoch ms, so
 * that keys sort by time.
 */
import type { Due } from "./delivery.ts";

const part = (text: string): string => (text.includes(":") ? text.replaceAll(":", "~") : text);
const whole = (text: string): string => text.replaceAll("~", ":");
const time = (ms: number): string => String(Math.max(0, Math.floor(ms))).padStart(13, "0");

/** `event:<key>:<ordinal>` → event record. */
export const eventKey = (keyId: string, ordinal: string): string => `event:${part(keyId)}:${ordinal}`;
export const eventsOf = (keyId: string): string => `event:${part(keyId)}:`;
/** `eventid:<key>:<id>` → ordinal; only for ids of the publisher's own. */
export const eventIdKey = (keyId: string, id: string): string => `eventid:${part(keyId)}:${part(id)}`;

/** `delivery:<sub>:<ordinal>` → delivery record; absent until the first attempt has ended. */
export const deliveryKey = (subscriptionId: string, ordinal: string): string => `delivery:${subscriptionId}:${ordinal}`;
export const deliveriesOf = (subscriptionId: string): string => `delivery:${subscriptionId}:`;
/** `attempts:<sub>:<ordinal>:<cycle>` → the attempts of a cycle that a replay has closed. */
export const attemptsKey = (subscriptionId: string, ordinal: string, cycle: number): string =>
  `attempts:${subscriptionId}:${ordinal}:${String(cycle).padStart(5, "0")}`;
export const attemptsOf = (subscriptionId: string, ordinal: string): string => `attempts:${subscriptionId}:${ordinal}:`;
/** `failed:<sub>:<ordinal>` → `<key> <failed at> <reason> <cycle>`: the replay store's index. */
export const failedKey = (subscriptionId: string, ordinal: string): string => `failed:${subscriptionId}:${ordinal}`;
export const failedOf = (subscriptionId: string): string => `failed:${subscriptionId}:`;

/** `due:<sub>:<due at>:<ordinal>` → `<key> <generation> <cycle> <attempts> [<wait ms>]`: the due index. */
export const dueKey = (due: Pick<Due, "subscriptionId" | "dueAt" | "ordinal">): string =>
  `due:${due.subscriptionId}:${time(due.dueAt)}:${due.ordinal}`;
export const duesOf = (subscriptionId: string): string => `due:${subscriptionId}:`;
/** The line's text; of a damaged one, the text as it was read. */
export function dueValue({ keyId, generation, cycle, attempts, waitMs, damaged }: Due): string {
  if (damaged !== undefined) return damaged;
  const text = `${keyId} ${generation} ${cycle} ${attempts}`;
  return waitMs === undefined ? text : `${text} ${waitMs}`;
}
const DUE_KEY = /^due:([^:]+):(\d{13,16}):([^:]+)$/;
const DUE_VALUE = /^([A-Za-z0-9][A-Za-z0-9_:-]{0,63}) (\d{1,15}) (\d{1,15}) (\d{1,15})(?: (\d{1,15}))?$/;
/**
 * Reads a due line. Its key says whose it is and when; when only its text is not one that `dueValue` makes, it is a line all
 * the same, with `damaged` set, so that its delivery comes to an end.
 * @throws SyntaxError when the key is not one of ours
 */
export function parseDue(key: string, value: string): Due {
  const at = DUE_KEY.exec(key);
  if (at === null) throw new SyntaxError("not a due line");
  const [, subscriptionId = "", dueAt, ordinal = ""] = at;
  const said = DUE_VALUE.exec(value);
  const [, keyId = "", generation = 0, cycle = 0, attempts = 0, wait] = said ?? [];
  const due: Due = {
    subscriptionId,
    keyId,
    ordinal,
    dueAt: Number(dueAt),
    generation: Number(generation),
    cycle: Number(cycle),
    attempts: Number(attempts),
    waitMs: wait === undefined ? undefined : Number(wait),
  };
  return said !== null && dueValue(due) === value ? due : { ...due, damaged: value };
}

/**
 * The lane of the queue in which the wide events of a key wait for their fan-out. Its lines stand in the due index like
 * those of a subscription: `due:fan_<key>:<accepted at>:<ordinal>` → `<key> <deliveries left to write> 0 <written>`.
 */
export const fanoutLane = (keyId: string): string => `${LANE}${part(keyId)}`;
export const isFanoutLane = (subscriptionId: string): boolean => subscriptionId.startsWith(LANE);
/** The key of a lane. */
export const fanoutLaneKey = (lane: string): string => whole(lane.slice(LANE.length));
const LANE = "fan_";
/** Every line of every such lane starts with this. */
export const FANOUT_LINES = `due:${LANE}`;
/** `fanout:<key>:<ordinal>` → `<snapshot> <state>` of a wide event; there for as long as the event. */
export const fanoutKey = (keyId: string, ordinal: string): string => `fanout:${part(keyId)}:${ordinal}`;
export const fanoutsOf = (keyId: string): string => `fanout:${part(keyId)}:`;
/** `snapshot:<key>:<snapshot>` → its state: the header of a list of subscriptions that wide events share. */
export const snapshotKey = (keyId: string, id: string): string => `snapshot:${part(keyId)}:${id}`;
export const snapshotsOf = (keyId: string): string => `snapshot:${part(keyId)}:`;
/** `members:<key>:<snapshot>:<page>` → a page of that list. */
export const membersKey = (keyId: string, id: string, page: number): string =>
  `members:${part(keyId)}:${id}:${String(page).padStart(6, "0")}`;
export const membersOf = (keyId: string, id: string): string => `members:${part(keyId)}:${id}:`;

/** `subscription:<key>:<sub>` → subscription record; a deleted one stays as a tombstone. */
export const subscriptionKey = (keyId: string, id: string): string => `subscription:${part(keyId)}:${id}`;
export const subscriptionsOf = (keyId: string): string => `subscription:${part(keyId)}:`;
export function parseSubscriptionKey(key: string): { readonly keyId: string; readonly id: string } {
  const [, keyId, id] = key.split(":");
  return { keyId: whole(keyId ?? ""), id: id ?? "" };
}

/** `count:<key>` → how many live subscriptions the key has: what its cap is kept by, whoever comes at once. */
export const subscriptionCountKey = (keyId: string): string => `count:${part(keyId)}`;

/** `key:<key>` → epoch ms of its first use. */
export const apiKeyKey = (keyId: string): string => `key:${part(keyId)}`;
export const parseApiKeyKey = (key: string): string => whole(key.slice("key:".length));
/** `type:<name>` → epoch ms of its first use, on any key. */
export const typeKey = (name: string): string => `type:${part(name)}`;
/** `keytype:<key>:<name>` → epoch ms of its first use on that key. */
export const keyTypeKey = (keyId: string, name: string): string => `keytype:${part(keyId)}:${part(name)}`;
/** The name of an event type, from a key of either shelf. */
export const parseTypeKey = (key: string): string => whole(key.slice(key.lastIndexOf(":") + 1));

/** `idempotency:<scope>:<hash>` → request digest and answer. */
export const idempotencyKey = (scope: string, hash: string): string => `idempotency:${scope}:${hash}`;
/** `expiry:<at>:<target key>` → empty: the target is deleted after that time. */
export const expiryKey = (at: number, target: string): string => `expiry:${time(at)}:${target}`;
export const parseExpiryKey = (key: string): { readonly at: number; readonly target: string } => ({
  at: Number(key.slice(7, 20)),
  target: key.slice(21),
});

/** `retention:<rule>:<key>` → ordinal of the newest event of the key that retention by this rule has looked at. */
export const retentionKey = (rule: string, keyId: string): string => `retention:${rule}:${part(keyId)}`;
export const retentionsOf = (rule: string): string => `retention:${rule}:`;
/** `recheck:<rule>:<at>:<key>:<ordinal>` → empty: an event behind that place, looked at again from that time on. */
export const recheckKey = (rule: string, at: number, keyId: string, ordinal: string): string =>
  `recheck:${rule}:${time(at)}:${part(keyId)}:${ordinal}`;
export const rechecksOf = (rule: string): string => `recheck:${rule}:`;
export function parseRecheckKey(key: string): {
  readonly rule: string;
  readonly at: number;
  readonly keyId: string;
  readonly ordinal: string;
} {
  const [, rule = "", at, keyId = "", ordinal = ""] = key.split(":");
  return { rule, at: Number(at), keyId: whole(keyId), ordinal };
}
/** `replayed:<key>:<ordinal>` → empty: what became of this event may change again, which retention is to look at. */
export const replayedKey = (keyId: string, ordinal: string): string => `replayed:${part(keyId)}:${ordinal}`;
export const REPLAYED = "replayed:";
export function parseReplayedKey(key: string): { readonly keyId: string; readonly ordinal: string } {
  const [, keyId = "", ordinal = ""] = key.split(":");
  return { keyId: whole(keyId), ordinal };
}

/** `audit:<key>:<ordinal>` → audit line. */
export const auditKey = (keyId: string, ordinal: string): string => `audit:${part(keyId)}:${ordinal}`;
export const auditOf = (keyId: string): string => `audit:${part(keyId)}:`;
/** `tick:<job>` → the last tick that a node took. */
export const tickKey = (job: string): string => `tick:${job}`;
/** `health:<sub>` → epoch ms since when it has only failed; present while its breaker has been open. */
export const healthKey = (subscriptionId: string): string => `health:${subscriptionId}`;
export const parseHealthKey = (key: string): string => key.slice("health:".length);
/** Grains of the figures: one minute, ten minutes, one hour. */
export type Grain = "1m" | "10m" | "1h";
/** Stands where a key id would, for figures of the whole relay: no key id begins so. */
export const WHOLE_RELAY = "-relay";
/** `stats:<key>:<grain>:<at>:<node>` → what one node counted on the key from `at` on. */
export const statsKey = (keyId: string, grain: Grain, at: number, node: string): string =>
  `stats:${part(keyId)}:${grain}:${time(at)}:${node}`;
export const statsOf = (keyId: string, grain: Grain): string => `stats:${part(keyId)}:${grain}:`;
export const STATS = "stats:";
/** @returns `undefined` when the key is not one of ours */
export function parseStatsKey(
  key: string,
): { readonly keyId: string; readonly grain: Grain; readonly at: number; readonly node: string } | undefined {
  const [shelf, keyId, grain, at, node] = key.split(":");
  if (shelf !== "stats" || !keyId || at === undefined || node === undefined) return undefined;
  if (grain !== "1m" && grain !== "10m" && grain !== "1h") return undefined;
  return { keyId: whole(keyId), grain, at: Number(at), node };
}
/** `meta:<what>`: schema version, master key's fingerprint. */
export const metaKey = (what: string): string => `meta:${what}`;
/** `suspension:<hash>` → a suspended principal of the limiter. */
export const suspensionKey = (hash: string): string => `suspension:${hash}`;
/** `plugin:<kind>:<name>:…`: what plug-ins keep for themselves. */
export const pluginPrefix = (kind: string, name: string): string => `plugin:${kind}:${part(name)}:`;
