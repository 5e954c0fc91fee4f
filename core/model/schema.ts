/** Lists every kind of record that the relay stores: the parts of its key, what it belongs to, and what it holds. */
import { type AnyKind, digits, escaped, Kind, kinds, type Part, row, text, time } from "./kind.ts";

export const KINDS: readonly AnyKind[] = kinds;

const keyId: Part<"keyId", string> = escaped("keyId");
const subscriptionId = text("subscriptionId");
const ordinal = text("ordinal");
const sequence = digits("sequence", 2);
const at = time("at");
const rule = text("rule");

/** A failed delivery that holds up its sequence. */
export interface HeldRow {
  readonly keyId: string;
  readonly ordinal: string;
  readonly place: number;
  /** Epoch ms. */
  readonly since: number;
  readonly eventId: string;
}
const held = row<HeldRow>(
  (it) => [it.keyId, it.ordinal, it.place, it.since, it.eventId],
  /^(\S+) (\S+) (\d+) (\d+) (\S+)$/,
  ([key = "", one = "", place, since, eventId = ""]) => ({
    keyId: key,
    ordinal: one,
    place: Number(place),
    since: Number(since),
    eventId,
  }),
);

export interface SequenceRow {
  /** True when one of its deliveries is in the due index or held: the others wait. */
  readonly busy: boolean;
  /** How many deliveries have entered it, and the highest place that was given. */
  readonly entered: number;
}
const entered = row<SequenceRow>(
  (it) => [it.busy ? "busy" : "idle", it.entered],
  /^(busy|idle) (\d{1,15})$/,
  ([state, sum]) => ({ busy: state === "busy", entered: Number(sum) }),
);
const count = row<number>(
  (it) => [it],
  /^(\d{1,15})$/,
  ([sum]) => Number(sum),
);

/** The event. */
export const EVENT = new Kind("event", "event", [keyId, ordinal]);
/** The ordinal of an event whose id the publisher chose. */
export const EVENT_ID = new Kind("eventid", "key", [keyId, escaped("id")]);
/** `<snapshot> <state>` of a wide event; lasts as long as the event. */
export const FANOUT = new Kind("fanout", "event", [keyId, ordinal]);
/** Empty: a wide event that was erased, whose deliveries are being deleted. */
export const ERASING = new Kind("erasing", "event", [keyId, ordinal]);
/** Empty: a replay may change this event's state again, so retention examines it again. */
export const REPLAYED = new Kind("replayed", "event", [keyId, ordinal]);
/** Empty: an event before that ordinal, examined again from that time on. */
export const RECHECK = new Kind("recheck", "event", [rule, at, keyId, ordinal]);

/** The delivery; absent until the first attempt has ended. */
export const DELIVERY = new Kind("delivery", "subscription", [subscriptionId, ordinal]);
/** The attempts of a cycle that a replay has ended. */
export const ATTEMPTS = new Kind("attempts", "subscription", [subscriptionId, ordinal, digits("cycle", 5)]);
/** `<key> <failed at> <reason> <cycle>`: the replay store's index. */
export const FAILED = new Kind("failed", "subscription", [subscriptionId, ordinal]);
/** `<key> <generation> <cycle> <attempts> [<wait ms>] [@<sequence>.<place>]`: the due index. */
export const DUE = new Kind("due", "subscription", [subscriptionId, time("dueAt"), ordinal]);
/** `<due at> <text of its due line>`: a delivery that waits for its turn. */
export const WAITING = new Kind("waiting", "subscription", [subscriptionId, sequence, digits("place", 15), ordinal]);
/** `<key> <ordinal> <place> <since> <event id> <checksum>`. */
export const HELD = new Kind("held", "subscription", [subscriptionId, sequence], held);
/** `<busy or idle> <how many deliveries have entered it> <checksum>`. */
export const SEQUENCE = new Kind("sequence", "subscription", [keyId, subscriptionId, sequence], entered);
/** `<how many deliveries have left that sequence> <checksum>`. */
export const PASSED = new Kind("passed", "subscription", [keyId, subscriptionId, sequence], count);
/** Epoch ms since which it has only failed; present while its circuit breaker is open. */
export const HEALTH = new Kind("health", "subscription", [subscriptionId]);
/** `<generation>`: a disabled or deleted subscription whose pending deliveries are being ended. */
export const ENDING = new Kind("ending", "subscription", [keyId, subscriptionId]);

/** The subscription; a deleted one stays as a tombstone. */
export const SUBSCRIPTION = new Kind("subscription", "key", [keyId, text("id")]);
/** How many live subscriptions the key has. Enforces the per-key cap under concurrent creates. */
export const COUNT = new Kind("count", "key", [keyId]);
/** Its state: the header of a list of subscriptions that several wide events share. */
export const SNAPSHOT = new Kind("snapshot", "key", [keyId, text("id")]);
/** A page of that list. */
export const MEMBERS = new Kind("members", "key", [keyId, text("id"), digits("page", 6)]);
/** JSON: a key that is being erased, with how far that is. */
export const ERASE_KEY = new Kind("erasekey", "key", [keyId]);
/** Text that all links to the portal of the key must name: they end when it is deleted. */
export const PORTAL = new Kind("portal", "key", [keyId]);
/** What one node counted on the key in the grain that begins at that time. */
export const STATS = new Kind("stats", "key", [keyId, text<"grain", Grain>("grain"), at, text("node")]);

/** Epoch ms at which the previous secret stops signing; it is reported at the time in its key. */
export const OVERLAP = new Kind("overlap", "relay", [at, keyId, subscriptionId]);
/** Epoch ms of the first use of an API key. */
export const API_KEY = new Kind("key", "relay", [keyId]);
/** Epoch ms of the first use of an event type, on any key. */
export const TYPE = new Kind("type", "relay", [escaped("name")]);
/** Epoch ms of the first use of an event type on that key. */
export const KEY_TYPE = new Kind("keytype", "relay", [keyId, escaped("name")]);
/** Request digest and answer. */
export const IDEMPOTENCY = new Kind("idempotency", "relay", [text("scope"), text("hash")]);
/** Empty: the record under the target key is deleted after that time. */
export const EXPIRY = new Kind("expiry", "relay", [at, text("target")]);
/** Ordinal of the newest event of the key that retention has examined under this rule. */
export const RETENTION = new Kind("retention", "relay", [rule, keyId]);
/** A line of the audit trail. */
export const AUDIT = new Kind("audit", "relay", [keyId, ordinal]);
/** The last scheduled time that a node has taken. */
export const TICK = new Kind("tick", "relay", [text("job")]);
/** Schema version, fingerprint of the master key. */
export const META = new Kind("meta", "relay", [text("what")]);
/** A suspended principal of the limiter. */
export const SUSPENSION = new Kind("suspension", "relay", [text("hash")]);
/** A plug-in's own records. */
export const PLUGIN = new Kind("plugin", "relay", [text("kind"), escaped("name"), text("rest")]);
/** Deleted as soon as it is written: every node hears of its key. */
export const CONTROL = new Kind("control", "relay", [text("what"), ordinal]);

/** Is set while a restore or a migration fills the storage, which is not complete until then. */
export const FILLING = META.key({ what: "filling" });

/** Grains of the statistics: one minute, ten minutes, one hour. */
export type Grain = "1m" | "10m" | "1h";
/** Takes the place of a key id for statistics and audit lines of the whole relay; no key id begins like this. */
export const WHOLE_RELAY = "-relay";

/**
 * Names the queue in which the wide events of a key wait for their fan-out. Its lines stand in the due index like those
 * of a subscription: `due:fan_<key>:<accepted at>:<ordinal>` → `<key> <deliveries left to write> 0 <written>`, then ` 0` from the second page on.
 */
export const fanoutQueue = (id: string): string => `${QUEUE_PREFIX}${keyId.write(id)}`;
export const isFanoutQueue = (queue: string): boolean => queue.startsWith(QUEUE_PREFIX);
/** Returns the API key of a fan-out queue. */
export const fanoutQueueKey = (queue: string): string => keyId.read(queue.slice(QUEUE_PREFIX.length));
const QUEUE_PREFIX = "fan_";
/** The prefix of every line of every fan-out queue. */
export const FANOUT_LINES = `${DUE.start}${QUEUE_PREFIX}`;

/** Returns the ordinal with which a key ends. */
export const ordinalOf = (key: string): string => key.slice(key.lastIndexOf(":") + 1);
