/**
 * Makes every key that the relay writes, and lists their prefixes.
 *
 * Key ids may hold `:`, which separates parts, so it is written `~` in keys. All times are 13 digits of epoch ms, so
 * that keys sort by time.
 */
import type { Due, SequencePlace } from "./delivery.ts";

const part = (text: string): string => (text.includes(":") ? text.replaceAll(":", "~") : text);
const whole = (text: string): string => text.replaceAll("~", ":");
const time = (ms: number): string => String(Math.max(0, Math.floor(ms))).padStart(13, "0");

/** `event:<key>:<ordinal>` → event record. */
export const eventKey = (keyId: string, ordinal: string): string => `event:${part(keyId)}:${ordinal}`;
export const eventsOf = (keyId: string): string => `event:${part(keyId)}:`;
/** The prefix of the ids that publishers chose on a key. */
export const eventIdsOf = (keyId: string): string => `eventid:${part(keyId)}:`;
/** `eventid:<key>:<id>` → ordinal; only for ids that the publisher chose. */
export const eventIdKey = (keyId: string, id: string): string => `eventid:${part(keyId)}:${part(id)}`;

/** `delivery:<sub>:<ordinal>` → delivery record; absent until the first attempt has ended. */
export const deliveryKey = (subscriptionId: string, ordinal: string): string => `delivery:${subscriptionId}:${ordinal}`;
export const deliveriesOf = (subscriptionId: string): string => `delivery:${subscriptionId}:`;
/** `attempts:<sub>:<ordinal>:<cycle>` → the attempts of a cycle that a replay has ended. */
export const attemptsKey = (subscriptionId: string, ordinal: string, cycle: number): string =>
  `attempts:${subscriptionId}:${ordinal}:${String(cycle).padStart(5, "0")}`;
export const attemptsOf = (subscriptionId: string, ordinal: string): string => `attempts:${subscriptionId}:${ordinal}:`;
/** `failed:<sub>:<ordinal>` → `<key> <failed at> <reason> <cycle>`: the replay store's index. */
export const failedKey = (subscriptionId: string, ordinal: string): string => `failed:${subscriptionId}:${ordinal}`;
export const failedOf = (subscriptionId: string): string => `failed:${subscriptionId}:`;

/** `due:<sub>:<due at>:<ordinal>` → `<key> <generation> <cycle> <attempts> [<wait ms>] [@<sequence>.<place>]`: the due index. */
export const dueKey = (due: Pick<Due, "subscriptionId" | "dueAt" | "ordinal">): string =>
  `due:${due.subscriptionId}:${time(due.dueAt)}:${due.ordinal}`;
export const duesOf = (subscriptionId: string): string => `due:${subscriptionId}:`;
/** Encodes the line's text; for a damaged line, returns the text as it was read. */
export function dueValue({ keyId, generation, cycle, attempts, waitMs, order, damaged }: Due): string {
  if (damaged !== undefined) return damaged;
  const text = `${keyId} ${generation} ${cycle} ${attempts}`;
  const whole = waitMs === undefined ? text : `${text} ${waitMs}`;
  return order === undefined ? whole : `${whole} @${order.sequence}.${order.place}`;
}
const DUE_KEY = /^due:([^:]+):(\d{13,16}):([^:]+)$/;
const DUE_VALUE =
  /^([A-Za-z0-9][A-Za-z0-9_:-]{0,63}) (\d{1,15}) (\d{1,15}) (\d{1,15})(?: (\d{1,15}))?(?: @(\d{1,3})\.(\d{1,15}))?$/;
/**
 * Reads a due line. The key gives its subscription and time. When only the text is not one that `dueValue` makes, it
 * returns a line with `damaged` set, so that the delivery can still be ended.
 * @throws SyntaxError when the key is not a due line's
 */
export function parseDue(key: string, value: string): Due {
  const at = DUE_KEY.exec(key);
  if (at === null) throw new SyntaxError("the key is not that of a due line");
  const [, subscriptionId = "", dueAt, ordinal = ""] = at;
  const said = DUE_VALUE.exec(value);
  const [, keyId = "", generation = 0, cycle = 0, attempts = 0, wait, sequence, place] = said ?? [];
  const due: Due = {
    subscriptionId,
    keyId,
    ordinal,
    dueAt: Number(dueAt),
    generation: Number(generation),
    cycle: Number(cycle),
    attempts: Number(attempts),
    waitMs: wait === undefined ? undefined : Number(wait),
    order: sequence === undefined ? undefined : { sequence: Number(sequence), place: Number(place) },
  };
  return said !== null && dueValue(due) === value ? due : { ...due, damaged: value };
}

const sequenceText = (sequence: number): string => String(sequence).padStart(2, "0");
const placeText = (place: number): string => String(place).padStart(15, "0");
/**
 * `sequence:<key>:<sub>:<sequence>` → `<busy or idle> <how many deliveries have entered it> <checksum>`. Busy: one
 * delivery of it is in the due index or held, and the others wait.
 */
export const sequenceKey = (keyId: string, subscriptionId: string, sequence: number): string =>
  `sequence:${part(keyId)}:${subscriptionId}:${sequenceText(sequence)}`;
export const sequencesOf = (keyId: string, subscriptionId?: string): string =>
  `${SEQUENCES}${part(keyId)}:${subscriptionId === undefined ? "" : `${subscriptionId}:`}`;
export const SEQUENCES = "sequence:";
/** `passed:<key>:<sub>:<sequence>` → `<how many deliveries have left that sequence> <checksum>`. */
export const passedKey = (keyId: string, subscriptionId: string, sequence: number): string =>
  `passed:${part(keyId)}:${subscriptionId}:${sequenceText(sequence)}`;
/** Returns the `passed` key that belongs to a `sequence` key. */
export const passedKeyOf = (key: string): string => `passed:${key.slice(SEQUENCES.length)}`;
/** `waiting:<sub>:<sequence>:<place>:<ordinal>` → `<due at> <text of its due line>`: a delivery that waits for its turn. */
export const waitingKey = (subscriptionId: string, { sequence, place }: SequencePlace, ordinal: string): string =>
  `${waitingOf(subscriptionId, sequence)}${placeText(place)}:${ordinal}`;
export const waitingOf = (subscriptionId: string, sequence: number): string =>
  `waiting:${subscriptionId}:${sequenceText(sequence)}:`;
/** The prefix of all that waits of one subscription. */
export const waitingsOf = (subscriptionId: string): string => `waiting:${subscriptionId}:`;
export const waitingValue = (due: Due): string => `${due.dueAt} ${dueValue(due)}`;
/** @returns the due line that the delivery gets when its turn comes @throws SyntaxError when it cannot be read */
export function parseWaiting(key: string, value: string): Due {
  const [, subscriptionId = "", , , ordinal = ""] = key.split(":");
  const space = value.indexOf(" ");
  const dueAt = Number(value.slice(0, space));
  const due = parseDue(dueKey({ subscriptionId, dueAt, ordinal }), value.slice(space + 1));
  if (space < 1 || due.damaged !== undefined || due.order === undefined)
    throw new SyntaxError("the text is not that of a waiting delivery");
  return due;
}
/** `held:<sub>:<sequence>` → `<key> <ordinal> <place> <since> <event id> <checksum>`: a failed one that holds up its sequence. */
export const heldKey = (subscriptionId: string, sequence: number): string =>
  `held:${subscriptionId}:${sequenceText(sequence)}`;
export const heldOf = (subscriptionId: string): string => `held:${subscriptionId}:`;
export const HELD = "held:";

/**
 * Names the queue in which the wide events of a key wait for their fan-out. Its lines stand in the due index like those
 * of a subscription: `due:fan_<key>:<accepted at>:<ordinal>` → `<key> <deliveries left to write> 0 <written>`, then ` 0` from the second page on.
 */
export const fanoutQueue = (keyId: string): string => `${QUEUE_PREFIX}${part(keyId)}`;
export const isFanoutQueue = (subscriptionId: string): boolean => subscriptionId.startsWith(QUEUE_PREFIX);
/** Returns the API key of a fan-out queue. */
export const fanoutQueueKey = (queue: string): string => whole(queue.slice(QUEUE_PREFIX.length));
const QUEUE_PREFIX = "fan_";
/** The prefix of every line of every fan-out queue. */
export const FANOUT_LINES = `due:${QUEUE_PREFIX}`;
/** `fanout:<key>:<ordinal>` → `<snapshot> <state>` of a wide event; lasts as long as the event. */
export const fanoutKey = (keyId: string, ordinal: string): string => `fanout:${part(keyId)}:${ordinal}`;
export const fanoutsOf = (keyId: string): string => `fanout:${part(keyId)}:`;
/** `erasing:<key>:<ordinal>` → empty: a wide event that was erased, whose deliveries are being deleted. */
export const erasingKey = (keyId: string, ordinal: string): string => `${ERASING}${part(keyId)}:${ordinal}`;
export const ERASING = "erasing:";
export function parseErasingKey(key: string): { readonly keyId: string; readonly ordinal: string } {
  const [, keyId = "", ordinal = ""] = key.split(":");
  return { keyId: whole(keyId), ordinal };
}
/** `ending:<key>:<sub>` → `<generation>`: a disabled or deleted subscription whose pending deliveries are being ended. */
export const endingKey = (keyId: string, id: string): string => `${ENDINGS}${part(keyId)}:${id}`;
export const ENDINGS = "ending:";
/** `erasekey:<key>` → JSON: a key that is being erased, with how far that is. */
export const eraseKeyKey = (keyId: string): string => `${ERASED_KEYS}${part(keyId)}`;
export const ERASED_KEYS = "erasekey:";
export const parseEraseKeyKey = (key: string): string => whole(key.slice(ERASED_KEYS.length));
/** `portal:<key>` → text that all links to the portal of the key must name: they end when it is deleted. */
export const portalKey = (keyId: string): string => `portal:${part(keyId)}`;
/** `snapshot:<key>:<snapshot>` → its state: the header of a list of subscriptions that several wide events share. */
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

/** `count:<key>` → how many live subscriptions the key has. Enforces the per-key cap under concurrent creates. */
export const subscriptionCountKey = (keyId: string): string => `count:${part(keyId)}`;

/** `key:<key>` → epoch ms of its first use. */
export const apiKeyKey = (keyId: string): string => `key:${part(keyId)}`;
export const parseApiKeyKey = (key: string): string => whole(key.slice("key:".length));
/** `type:<name>` → epoch ms of its first use, on any key. */
export const typeKey = (name: string): string => `type:${part(name)}`;
/** `keytype:<key>:<name>` → epoch ms of its first use on that key. */
export const keyTypeKey = (keyId: string, name: string): string => `keytype:${part(keyId)}:${part(name)}`;
/** Returns the event type of a `type` or `keytype` key. */
export const parseTypeKey = (key: string): string => whole(key.slice(key.lastIndexOf(":") + 1));

/** `idempotency:<scope>:<hash>` → request digest and answer. */
export const idempotencyKey = (scope: string, hash: string): string => `idempotency:${scope}:${hash}`;
/** `expiry:<at>:<target key>` → empty: the target is deleted after that time. */
export const expiryKey = (at: number, target: string): string => `expiry:${time(at)}:${target}`;
export const parseExpiryKey = (key: string): { readonly at: number; readonly target: string } => ({
  at: Number(key.slice(7, 20)),
  target: key.slice(21),
});

/** `retention:<rule>:<key>` → ordinal of the newest event of the key that retention has examined under this rule. */
export const retentionKey = (rule: string, keyId: string): string => `retention:${rule}:${part(keyId)}`;
export const retentionsOf = (rule: string): string => `retention:${rule}:`;
/** `recheck:<rule>:<at>:<key>:<ordinal>` → empty: an event before that ordinal, examined again from that time on. */
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
/** `replayed:<key>:<ordinal>` → empty: a replay may change this event's state again, so retention examines it again. */
export const replayedKey = (keyId: string, ordinal: string): string => `replayed:${part(keyId)}:${ordinal}`;
export const REPLAYED = "replayed:";
export function parseReplayedKey(key: string): { readonly keyId: string; readonly ordinal: string } {
  const [, keyId = "", ordinal = ""] = key.split(":");
  return { keyId: whole(keyId), ordinal };
}

/** `audit:<key>:<ordinal>` → audit line. */
export const auditKey = (keyId: string, ordinal: string): string => `audit:${part(keyId)}:${ordinal}`;
export const auditOf = (keyId: string): string => `audit:${part(keyId)}:`;
/** `tick:<job>` → the last scheduled time that a node has taken. */
export const tickKey = (job: string): string => `tick:${job}`;
/** `health:<sub>` → epoch ms since which it has only failed; present while its circuit breaker is open. */
export const healthKey = (subscriptionId: string): string => `health:${subscriptionId}`;
export const parseHealthKey = (key: string): string => key.slice("health:".length);
/** `overlap:<at>:<key>:<sub>` → epoch ms at which the previous secret stops signing; it is reported at `at`. */
export const overlapKey = (at: number, keyId: string, subscriptionId: string): string =>
  `${OVERLAPS}${time(at)}:${part(keyId)}:${subscriptionId}`;
export const OVERLAPS = "overlap:";
export function parseOverlapKey(key: string): {
  readonly at: number;
  readonly keyId: string;
  readonly subscriptionId: string;
} {
  const [, at, keyId = "", subscriptionId = ""] = key.split(":");
  return { at: Number(at), keyId: whole(keyId), subscriptionId };
}
/** Grains of the statistics: one minute, ten minutes, one hour. */
export type Grain = "1m" | "10m" | "1h";
/** Takes the place of a key id for statistics of the whole relay; no key id begins like this. */
export const WHOLE_RELAY = "-relay";
/** `stats:<key>:<grain>:<at>:<node>` → what one node counted on the key in the grain that begins at `at`. */
export const statsKey = (keyId: string, grain: Grain, at: number, node: string): string =>
  `stats:${part(keyId)}:${grain}:${time(at)}:${node}`;
/** The prefix of all statistics of a key. */
export const allStatsOf = (keyId: string): string => `stats:${part(keyId)}:`;
export const statsOf = (keyId: string, grain: Grain): string => `stats:${part(keyId)}:${grain}:`;
export const STATS = "stats:";
/** @returns `undefined` when it is not a statistics key */
export function parseStatsKey(
  key: string,
): { readonly keyId: string; readonly grain: Grain; readonly at: number; readonly node: string } | undefined {
  const [prefix, keyId, grain, at, node] = key.split(":");
  if (prefix !== "stats" || !keyId || at === undefined || node === undefined) return undefined;
  if (grain !== "1m" && grain !== "10m" && grain !== "1h") return undefined;
  return { keyId: whole(keyId), grain, at: Number(at), node };
}
/** `meta:<what>`: schema version, fingerprint of the master key. */
export const metaKey = (what: string): string => `meta:${what}`;
/** Is set while a restore or a migration fills the storage, which is not complete until then. */
export const FILLING = metaKey("filling");
/** `suspension:<hash>` → a suspended principal of the limiter. */
export const suspensionKey = (hash: string): string => `suspension:${hash}`;
/** `plugin:<kind>:<name>:…`: a plug-in's own records. */
export const pluginPrefix = (kind: string, name: string): string => `plugin:${kind}:${part(name)}:`;
