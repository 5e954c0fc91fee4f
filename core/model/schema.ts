/** Lists every kind of record that the relay stores: the parts of its key, what it belongs to, and what it holds. */
import type { Actor, AuditLine } from "./audit.ts";
import { attemptsCodec, deliveryCodec, dueCodec, type EventStatus, failedCodec, waitingCodec } from "./delivery.ts";
import { eventCodec } from "./event.ts";
import { type AnyKind, type Codec, digits, escaped, json, Kind, kinds, type Part, row, text, time } from "./kind.ts";
import { type RecordDamaged, subscriptionCodec } from "./subscription.ts";

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

/** The state of a wide event's deliveries together, which saves thousands of reads, and their snapshot. */
export type FanoutRow = { readonly snapshot: string } & (
  | {
      /** Some may be pending. */
      readonly state: "open";
      /** Each replay changes it. */
      readonly turn?: string;
    }
  | {
      /** All have ended, until a replay opens it again. */
      readonly state: "ended";
      readonly status: EventStatus;
      readonly at: number;
    }
  | {
      /** The event is gone, and its deliveries are being deleted. */
      readonly state: "removing";
      /** How many are gone. */
      readonly removed: number;
      /** Those that are not in the snapshot. */
      readonly added: readonly string[];
    }
);
const fanout: Codec<FanoutRow> = {
  write(row) {
    const start = `${row.snapshot} ${row.state}`;
    if (row.state === "ended") return `${start} ${row.status} ${row.at}`;
    if (row.state === "removing") return `${start} ${row.removed} ${row.added.join(",")}`;
    return row.turn === undefined ? start : `${start} ${row.turn}`;
  },
  read(text) {
    const [snapshot = "", state, one = "", two = ""] = text.split(" ");
    if (/^[0-9a-f]{32}$/.test(snapshot)) {
      if (state === "open") return { snapshot, state };
      if (state === "ended") return { snapshot, state, status: one as EventStatus, at: Number(two) };
      if (state === "removing")
        return { snapshot, state, removed: Number(one), added: two === "" ? [] : two.split(",") };
    }
    throw new SyntaxError("the text is not the row of a wide event");
  },
};

/** A subscription as it was when the event was accepted. */
export interface FanoutMember {
  readonly id: string;
  readonly generation: number;
  /** True when it was disabled then: its delivery has failed from the start. */
  readonly disabled: boolean;
  /** Set when its record was damaged then. */
  readonly disabledReason?: RecordDamaged;
  /** True when it was ordered then: its delivery was written with the event. */
  readonly ordered?: true;
}
const members: Codec<readonly FanoutMember[]> = {
  write: (page) =>
    page
      .map(
        ({ id, generation, disabled, disabledReason, ordered }) =>
          `${id} ${generation}${disabledReason ? " damaged" : disabled ? " disabled" : ordered === true ? " ordered" : ""}`,
      )
      .join("\n"),
  read: (text) =>
    text.split("\n").map((line) => {
      const [id = "", generation = "", state] = line.split(" ");
      if (!id || !/^\d+$/.test(generation)) throw new SyntaxError("the text is not a page of a snapshot");
      const damaged = state === "damaged";
      const member = { id, generation: Number(generation), disabled: damaged || state === "disabled" };
      if (damaged) return { ...member, disabledReason: "record_damaged" };
      return state === "ordered" ? { ...member, ordered: true } : member;
    }),
};

/** The erasure of a key, as a job. */
export interface EraseJob {
  /** Epoch ms of the request. */
  readonly at: number;
  readonly actor: Actor;
  /** Subscriptions that were there then, though by their own time, from a clock that is ahead, they are younger. */
  readonly ahead?: readonly string[] | undefined;
  /** Events up to this ordinal are erased. Absent while subscriptions are being deleted. */
  readonly until?: string;
}
const erasure = json<EraseJob>(({ at, actor }) => Number.isFinite(at) && typeof actor?.sub === "string");
const audit = json<AuditLine>(
  ({ at, by, action, target, result }) =>
    Number.isFinite(at) && [by, action, target, result].every((one) => typeof one === "string"),
);
const suspension = json<{
  readonly key: string;
  readonly strikes: number;
  /** Epoch ms. */
  readonly struckAt: number;
  readonly until: number;
  /** Epoch ms after which the strike no longer counts. */
  readonly forgetAt: number;
}>(
  ({ key, strikes, struckAt, until, forgetAt }) =>
    typeof key === "string" && [strikes, struckAt, until, forgetAt].every(Number.isFinite),
);

/** What is noted of something that needs attention; gone when that is over. */
interface AttentionRow {
  /** What of it somebody has acknowledged, when and who. */
  readonly marks: readonly string[];
  /** Epoch ms. */
  readonly at?: number;
  readonly by?: string;
  /** A notice has told of it. */
  readonly told?: true;
}
const attention = json<AttentionRow>(({ marks }) => Array.isArray(marks));

export const EVENT = new Kind("event", [keyId, ordinal], eventCodec);
/** The ordinal of an event whose id the publisher chose. */
export const EVENT_ID = new Kind("eventid", [keyId, escaped("id")]);
/** `<snapshot> <state>` of a wide event; lasts as long as the event. */
export const FANOUT = new Kind("fanout", [keyId, ordinal], fanout);
/** Empty: a wide event that was erased, whose deliveries are being deleted. */
export const ERASING = new Kind("erasing", [keyId, ordinal]);
/** Empty: a replay may change this event's state again, so retention examines it again. */
export const REPLAYED = new Kind("replayed", [keyId, ordinal]);
/** Empty: an event before that ordinal, examined again from that time on. */
export const RECHECK = new Kind("recheck", [rule, at, keyId, ordinal]);

/** The delivery; absent until the first attempt has ended. */
export const DELIVERY = new Kind("delivery", [subscriptionId, ordinal], deliveryCodec);
/** The attempts of a cycle that a replay has ended. */
export const ATTEMPTS = new Kind("attempts", [subscriptionId, ordinal, digits("cycle", 5)], attemptsCodec);
/** `<key> <failed at> <reason> <cycle>`: the replay store's index. */
export const FAILED = new Kind("failed", [subscriptionId, ordinal], failedCodec);
/** `<key> <generation> <cycle> <attempts> [<wait ms>] [@<sequence>.<place>]`: the due index. */
export const DUE = new Kind("due", [subscriptionId, time("dueAt"), ordinal], dueCodec);
/** `<due at> <text of its due line>`: a delivery that waits for its turn. */
export const WAITING = new Kind("waiting", [subscriptionId, sequence, digits("place", 15), ordinal], waitingCodec);
/** `<key> <ordinal> <place> <since> <event id> <checksum>`. */
export const HELD = new Kind("held", [subscriptionId, sequence], held);
/** `<busy or idle> <how many deliveries have entered it> <checksum>`. */
export const SEQUENCE = new Kind("sequence", [keyId, subscriptionId, sequence], entered);
/** `<how many deliveries have left that sequence> <checksum>`. */
export const PASSED = new Kind("passed", [keyId, subscriptionId, sequence], count);
/** Epoch ms since which it has only failed; present while its circuit breaker is open. */
export const HEALTH = new Kind("health", [subscriptionId]);
/** `<generation>`: a disabled or deleted subscription whose pending deliveries are being ended. */
export const ENDING = new Kind("ending", [keyId, subscriptionId]);

/** The subscription; a deleted one stays as a tombstone. */
export const SUBSCRIPTION = new Kind("subscription", [keyId, text("id")], subscriptionCodec);
/** How many live subscriptions the key has. Enforces the per-key cap under concurrent creates. */
export const COUNT = new Kind("count", [keyId]);
/** Its state: the header of a list of subscriptions that several wide events share. */
export const SNAPSHOT = new Kind("snapshot", [keyId, text("id")]);
/** A page of that list. */
export const MEMBERS = new Kind("members", [keyId, text("id"), digits("page", 6)], members);
/** A key that is being erased, with how far that is. */
export const ERASE_KEY = new Kind("erasekey", [keyId], erasure);
/** Text that all links to the portal of the key must name: they end when it is deleted. */
export const PORTAL = new Kind("portal", [keyId]);
/** Counts of one node on the key in the grain that begins at that time. */
export const STATS = new Kind("stats", [keyId, text<"grain", Grain>("grain"), at, text("node")]);

/** Epoch ms at which the previous secret stops signing; it is reported at the time in its key. */
export const OVERLAP = new Kind("overlap", [at, keyId, subscriptionId]);
/** Epoch ms of the first use of an API key. */
export const API_KEY = new Kind("key", [keyId]);
/** Epoch ms of the first use of an event type, on any key. */
export const TYPE = new Kind("type", [escaped("name")]);
/** Epoch ms of the first use of an event type on that key. */
export const KEY_TYPE = new Kind("keytype", [keyId, escaped("name")]);
/** Request digest and answer. */
export const IDEMPOTENCY = new Kind("idempotency", [text("scope"), text("hash")]);
/** Empty: the record under the target key is deleted after that time. */
export const EXPIRY = new Kind("expiry", [at, text("target")]);
/** Ordinal of the newest event of the key that retention has examined under this rule. */
export const RETENTION = new Kind("retention", [rule, keyId]);
/** A line of the audit trail. */
export const AUDIT = new Kind("audit", [keyId, ordinal], audit);
/** The last scheduled time that a node has taken. */
export const TICK = new Kind("tick", [text("job")]);
/** Schema version, fingerprint of the master key. */
export const META = new Kind("meta", [text("what")]);
/** What is noted of something that needs attention: a subscription, or a part of the relay. */
export const ATTENTION = new Kind("attention", [keyId, escaped("about"), text("state")], attention);
/** A suspended principal of the limiter. */
export const SUSPENSION = new Kind("suspension", [text("hash")], suspension);
/** A plug-in's own records. */
export const PLUGIN = new Kind("plugin", [text("kind"), escaped("name"), text("rest")]);
/** Deleted as soon as it is written: every node hears of its key. */
export const CONTROL = new Kind("control", [text("what"), ordinal]);

/** Kinds that are left of a subscription that is deleted. */
export const OF_SUBSCRIPTION: readonly AnyKind[] = [
  ...[DELIVERY, ATTEMPTS, FAILED, DUE, WAITING, HELD, SEQUENCE, PASSED, HEALTH, ENDING],
];

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

export const ordinalOf = (key: string): string => key.slice(key.lastIndexOf(":") + 1);
