/** Ordered subscriptions in the simulation: how they were made, and the law that nothing of them is ever reordered. */
import { DELIVERY, HELD, PASSED, SEQUENCE, DUE, WAITING } from "../../core/model/schema.ts";
import { DAMAGED } from "../../core/model/kind.ts";
import type { SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { isErased, type Erasure } from "./erasures.ts";
import type { Seen } from "./network.ts";
import type { KnownSubscription, Published } from "./oracle.ts";
import { fail } from "./violation.ts";

/** How a subscription was made. Absent: not ordered. */
export interface Ordering {
  readonly by: boolean;
  readonly hold: boolean;
  /** When something was asked that lets those behind a held one go on. Ms of the world. */
  readonly releasedAt: number[];
}

export const ORDER_BY = "data.x";

const EVERY = { limit: 1_000_000 };

/**
 * True at every moment: of each busy sequence exactly one delivery is due or held, and of an idle one nothing is; and as
 * many deliveries are in it as entered and have not left.
 */
export function checkSequences(rows: SortedMap): ReadonlySet<string> {
  const waiting = new Set<string>();
  const queued = new Map<string, number>();
  const turns = new Map<string, string[]>();
  const add = (sub: string, sequence: number, who: string): void => {
    const name = HELD.key({ subscriptionId: sub, sequence });
    turns.set(name, [...(turns.get(name) ?? []), who]);
  };
  for (const { key, value } of rows.range("waiting:", EVERY)) {
    const { subscriptionId, ordinal, order, cycle, generation, attempts } = WAITING.orThrow(value, key);
    const text = rows.get(DELIVERY.key({ subscriptionId, ordinal })) ?? fail(`${key} waits without a record`);
    const delivery = DELIVERY.orThrow(text);
    const agrees =
      delivery.status === "pending" &&
      delivery.cycle === cycle &&
      delivery.generation === generation &&
      delivery.attempts.length === attempts &&
      delivery.order?.place === order?.place;
    if (!agrees) fail(`${key} → ${value} disagrees with its record ${text}`);
    const name = `${subscriptionId}:${ordinal}`;
    if (waiting.has(name)) fail(`${name} waits twice`);
    waiting.add(name);
    const at = HELD.key({ subscriptionId, sequence: order?.sequence ?? -1 });
    queued.set(at, (queued.get(at) ?? 0) + 1);
  }
  for (const { key, value } of rows.range("due:", EVERY)) {
    const { subscriptionId, order, ordinal } = DUE.orThrow(value, key);
    if (order !== undefined) add(subscriptionId, order.sequence, key);
    if (waiting.has(`${subscriptionId}:${ordinal}`)) fail(`${key} is due, and waits`);
  }
  for (const { key } of rows.range("held:", EVERY)) {
    const [, sub = "", sequence = ""] = key.split(":");
    add(sub, Number(sequence), key);
  }
  for (const { key, value } of rows.range("sequence:", EVERY)) {
    const [, , sub = "", sequence = ""] = key.split(":");
    const name = HELD.key({ subscriptionId: sub, sequence: Number(sequence) });
    const own = turns.get(name) ?? [];
    turns.delete(name);
    const behind = queued.get(name) ?? 0;
    const row = SEQUENCE.read(value);
    const { busy, entered } = row === DAMAGED ? fail(`${key} → ${value} cannot be read`) : row;
    if (own.length !== (busy ? 1 : 0)) fail(`${key} is ${value}, and it is the turn of [${own.join(", ")}]`);
    if (!busy && behind > 0) fail(`${key} is idle, and ${behind} wait`);
    const left = PASSED.read(rows.get(PASSED.key(SEQUENCE.id(key)))) ?? 0;
    const passed = left === DAMAGED ? fail(`${key}: what has passed cannot be read`) : left;
    if (entered - passed !== behind + own.length)
      fail(`${key} is ${value}, ${passed} have passed, and ${behind + own.length} are in it`);
  }
  for (const own of turns.values()) fail(`it is the turn of [${own.join(", ")}] in a sequence that is not there`);
  return waiting;
}

export interface OrderWitness {
  readonly rows: SortedMap;
  readonly erasures: readonly Erasure[];
  readonly published: ReadonlyMap<string, Published>;
  readonly subscriptions: ReadonlyMap<string, KnownSubscription>;
  /** Also those that did not arrive. */
  readonly sent: readonly Seen[];
}

/** The requests of one delivery in one cycle. */
interface Turn {
  readonly eventId: string;
  readonly cycle: number;
  readonly place: number;
  readonly first: Seen;
  last: Seen;
}

/**
 * The law of order: one delivery of a sequence after another, never back and forth; at first in the order in which they
 * were accepted, with no regard to the clocks; and behind a failed one that holds up the others, nothing.
 * @returns how many turns were judged
 */
export function checkOrder({ rows, erasures, published, subscriptions, sent }: OrderWitness): number {
  const ordinals = new Map<string, string>();
  for (const { key, value } of rows.range("delivery:", EVERY)) {
    const { subscriptionId, eventId, ordinal } = DELIVERY.orThrow(value, key);
    ordinals.set(`${subscriptionId} ${eventId}`, ordinal);
  }
  const byId = new Map<string, Published>();
  for (const event of published.values())
    if (event.once && event.accepted.size === 1) byId.set(`${event.keyId} ${[...event.accepted][0] as string}`, event);
  const running = new Map<string, Turn[]>();
  for (const one of sent) {
    const sub = subscriptions.get(one.subscriptionId);
    // A process that stood still between its last look and its first byte sends once more what others have finished.
    if (sub?.ordering === undefined || one.thawedAt === one.sentAt) continue;
    const event = published.get(/"ref":"(\w+)"/.exec(one.body)?.[1] ?? "");
    const known = ordinals.get(`${sub.id} ${one.eventId}`);
    if (known === undefined && event !== undefined && isErased(erasures, event, one.eventId) !== false) continue;
    const ordinal = known ?? fail(`${one.eventId} was sent without a record`);
    const { order } = DELIVERY.orThrow(rows.get(DELIVERY.key({ subscriptionId: sub.id, ordinal })) as string);
    if (order === undefined) {
      fail(`${one.eventId} was sent to ${sub.id} without a place`);
      continue;
    }
    const name = `${sub.id} ${order.sequence}`;
    const turns = running.get(name) ?? [];
    running.set(name, turns);
    const now = turns.at(-1);
    if (now !== undefined && now.eventId === one.eventId && now.cycle === one.cycle) {
      now.last = one;
      continue;
    }
    const said = `${one.eventId} (cycle ${one.cycle}) at ${name}, ${one.sentAt}`;
    if (turns.some(({ eventId, cycle }) => eventId === one.eventId && cycle === one.cycle))
      fail(`${said} came back after its turn`);
    const earlier = turns.findLast(({ cycle }) => cycle === 0);
    if (one.cycle === 0 && earlier !== undefined && earlier.place > order.place)
      fail(`${said} has place ${order.place} and came after place ${earlier.place}`);
    if (now !== undefined && sub.ordering.hold) held(sub, now, one, said);
    turns.push({ eventId: one.eventId, cycle: one.cycle, place: order.place, first: one, last: one });
  }
  let judged = 0;
  for (const [name, turns] of running) {
    judged += turns.length;
    const { keyId } = subscriptions.get(name.split(" ")[0] as string) as KnownSubscription;
    const accepted = turns.flatMap(({ eventId, cycle }) => {
      const event = byId.get(`${keyId} ${eventId}`);
      return cycle === 0 && event !== undefined ? [event] : [];
    });
    for (const [i, first] of accepted.entries())
      for (const second of accepted.slice(i + 1))
        if (second.answeredAt < first.askedAt)
          fail(`${second.ref} was accepted before ${first.ref} was published, and came after it to ${name}`);
  }
  return judged;
}

/** After the fifth refused attempt, the next turn is a replay of the same delivery, unless somebody let the others go on. */
function held(sub: KnownSubscription, { eventId, last }: Turn, next: Seen, said: string): void {
  if (next.eventId === eventId || last.number !== 5 || last.answered === undefined || last.answered < 300) return;
  const released = sub.ordering?.releasedAt.some((at) => at >= last.sentAt - RELEASE_MS && at <= next.sentAt) === true;
  if (!released) fail(`${said} came although ${eventId} had failed and holds up the others`);
}

/** A request may take effect so long after it was made, ms: a caller, a cut and a store each have their time. */
const RELEASE_MS = 200_000;
