/** Checks a relay's records and what its receivers saw, whatever happened to it. */
import type { Attempt } from "../../core/model/attempt.ts";
import { deliveryBody } from "../../core/model/event.ts";
import { ordinalTime } from "../../core/model/ids.ts";
import { COUNT, DELIVERY, EVENT, EVENT_ID, FAILED, isFanoutQueue, ATTEMPTS, DUE } from "../../core/model/schema.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import type { Entry } from "../../core/ports/storage.ts";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import type { RetryOptions } from "../../core/model/subscription.ts";
import type { SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { isErased, isRemoving, type Erasure } from "./erasures.ts";
import { included, type FilterSpan } from "./filters.ts";
import type { Seen } from "./network.ts";
import { checkSequences, type Ordering } from "./order.ts";
import { recipientsOf, writtenSoFar } from "./recipients.ts";
import { schedule } from "./schedule.ts";
import { transformed, untransformed } from "./transforms.ts";
import { fail } from "./violation.ts";

/** One published event, as the world outside knows it. */
export interface Published {
  /** Stands in its data, so that it is known again under whatever id. */
  readonly ref: string;
  readonly keyId: string;
  readonly type: string;
  readonly data: string;
  readonly own?: string;
  /** The id that a 202 named; several when a publisher without an id of its own asked again. */
  readonly accepted: Set<string>;
  /** Some answer left open whether it was stored, or there was none. */
  open: boolean;
  /** It has an id of its own, or was asked for under an Idempotency-Key: however often, it is one event. */
  once: boolean;
  /** Ms of the world: when it was asked for first, and answered last. */
  readonly askedAt: number;
  answeredAt: number;
  lastAnsweredAt: number;
  /** Subscriptions that it was sent to by name, whatever their filters say. */
  readonly sentTo: Set<string>;
}

export interface KnownSubscription {
  readonly id: string;
  readonly keyId: string;
  readonly type: string;
  /** Empty when one of them was never told. */
  readonly secrets: string[];
  readonly createdAt: number;
  /** Ms of the world; when a change was asked for, and when it was answered. */
  readonly quiet: { readonly askedAt: number; answeredAt: number; over: number }[];
  /** When its end was asked for first; infinity: never. */
  goneAt: number;
  /** When it was enabled again last; infinity while that is open, and for ever when it was never answered. */
  enabledAt: number;
  /** Filters that it had, the newest last. */
  readonly filters: FilterSpan[];
  readonly transform?: string | undefined;
  readonly ordering?: Ordering | undefined;
}

/** Indexes and records agree. True at every moment of what is stored, for commits are all or nothing. */
export function checkRows(rows: SortedMap): void {
  const all = (prefix: string): Entry[] => rows.range(prefix, { limit: 1_000_000 });
  const dues = new Map<string, string>();
  const written = writtenSoFar(rows);
  for (const { key, value } of all("due:")) {
    const due = DUE.orThrow(value, key);
    if (isFanoutQueue(due.subscriptionId)) {
      const event = EVENT.orThrow(rows.get(EVENT.key(due)) ?? fail(`${key} is of no event`));
      if (event.wide === undefined || due.attempts >= event.wide.count) fail(`${key} → ${value} has nothing to write`);
      continue;
    }
    const name = `${due.subscriptionId}:${due.ordinal}`;
    if (dues.has(name)) fail(`${name} has two lines in the due index`);
    dues.set(name, key);
    const event = rows.get(EVENT.key(due));
    if (event === undefined && !isRemoving(rows, due.keyId, due.ordinal)) fail(`${key} is due without an event`);
    if (event !== undefined && !recipientsOf(rows, EVENT.orThrow(event)).includes(due.subscriptionId))
      fail(`${key}: its event does not name it`);
    const text = rows.get(DELIVERY.key(due));
    if (text === undefined) {
      if (due.cycle !== 0 || due.attempts !== 0) fail(`${key} was tried, but has no record`);
      if (due.dueAt !== ordinalTime(due.ordinal)) fail(`${key} was never tried and is not due at its acceptance`);
      continue;
    }
    const delivery = DELIVERY.orThrow(text);
    if (delivery.status !== "pending") fail(`${key} is due, but its delivery is ${delivery.status}`);
    if (delivery.nextAttemptAt !== due.dueAt) fail(`${key} is due at another time than ${delivery.nextAttemptAt}`);
    if (
      delivery.cycle !== due.cycle ||
      delivery.attempts.length !== due.attempts ||
      delivery.generation !== due.generation
    )
      fail(`${key} → ${value} disagrees with its record ${text}`);
  }
  const waiting = checkSequences(rows);
  for (const { key, value } of all("delivery:")) {
    const { keyId, subscriptionId, ordinal, status, cycle, attempts, reason } = DELIVERY.orThrow(value);
    if (rows.get(EVENT.key({ keyId, ordinal })) === undefined && !isRemoving(rows, keyId, ordinal))
      fail(`${key} is of no event`);
    const name = `${subscriptionId}:${ordinal}`;
    if (status === "pending" && !dues.has(name) && !waiting.has(name))
      fail(`${key} is pending, but neither due nor waiting for its turn`);
    const failed = rows.get(FAILED.key({ subscriptionId, ordinal }));
    if ((status === "failed") !== (failed !== undefined))
      fail(`${key} is ${status}, its line of failed ones: ${failed}`);
    if (failed !== undefined && (FAILED.orThrow(failed).cycle !== cycle || FAILED.orThrow(failed).reason !== reason))
      fail(`${key}: its line of failed ones tells something else`);
    attemptsAre(key, cycle, attempts);
  }
  for (const { key, value } of all("failed:")) {
    const [, sub = "", ordinal = ""] = key.split(":");
    if (rows.get(DELIVERY.key({ subscriptionId: sub, ordinal })) === undefined)
      fail(`${key} → ${value} names no delivery`);
  }
  for (const { key, value } of all("attempts:")) {
    attemptsAre(key, Number(key.slice(-5)), ATTEMPTS.orThrow(value, key).attempts);
  }
  const ids = new Set<string>();
  for (const { key, value } of all("event:")) {
    const event = EVENT.orThrow(value);
    const { id, keyId, ordinal, wide } = event;
    if (ids.has(`${keyId} ${id}`)) fail(`${id} is stored twice`);
    ids.add(`${keyId} ${id}`);
    const from = written.get(`${keyId} ${ordinal}`) ?? Infinity;
    for (const [i, sub] of recipientsOf(rows, event).entries()) {
      if (wide !== undefined && i >= from && i < wide.count) continue;
      if (!dues.has(`${sub}:${ordinal}`) && rows.get(DELIVERY.key({ subscriptionId: sub, ordinal })) === undefined)
        fail(`${key} has no delivery for ${sub}`);
    }
    if (id !== `evt_${ordinal}` && rows.get(EVENT_ID.key({ keyId, id })) !== ordinal)
      fail(`${key}: ${id} does not find it`);
  }
  const counts = new Map<string, number>();
  for (const { value } of all("subscription:")) {
    const { keyId, deletedAt } = JSON.parse(value) as Subscription;
    counts.set(keyId, (counts.get(keyId) ?? 0) + (deletedAt === undefined ? 1 : 0));
  }
  for (const [keyId, count] of counts) {
    if (rows.get(COUNT.key({ keyId })) !== String(count)) fail(`the count of ${keyId} is wrong`);
  }
}

function attemptsAre(key: string, cycle: number, attempts: readonly Attempt[]): void {
  if (attempts.length > 5) fail(`${key} has ${attempts.length} attempts in a cycle`);
  for (const [i, attempt] of attempts.entries()) {
    if (attempt.number !== i + 1 || attempt.cycle !== cycle)
      fail(`${key}: attempt ${i + 1} is ${attempt.cycle}/${attempt.number}`);
  }
}

export interface Witness {
  readonly rows: SortedMap;
  readonly erasures: readonly Erasure[];
  readonly published: ReadonlyMap<string, Published>;
  readonly subscriptions: ReadonlyMap<string, KnownSubscription>;
  readonly seen: readonly Seen[];
  /** Runs of transforms that failed: each is an attempt, on the nodes that kept their lease. */
  readonly failedRuns: readonly Seen[];
  /** One node, whose leases last as long as it. */
  readonly alone: boolean;
  /** How long after an answer another node may not have heard of it, ms. */
  readonly graceMs: number;
  /** True when something may have cut the attempt that this one repeats. */
  readonly interrupted: (first: Seen, again: Seen) => boolean;
  readonly retry: RetryOptions;
  /** By how much wrong clocks may have brought the second forward, ms. */
  readonly slackMs: (before: Seen, after: Seen) => number;
}

/** All is quiet: nothing is pending, and whatever was acknowledged has come to an end that the receivers bear out. */
export function checkEnd(witness: Witness): void {
  const { rows, published, subscriptions, seen } = witness;
  const [line] = rows.range("due:", { limit: 1 });
  if (line !== undefined) fail(`${line.key} is still due`);
  const [behind] = rows.range("waiting:", { limit: 1 });
  if (behind !== undefined) fail(`${behind.key} still waits`);
  const byId = new Map<string, string>();
  const refs = new Set<string>();
  for (const { key, value } of rows.range("event:", { limit: 1_000_000 })) {
    const event = EVENT.orThrow(value);
    const { id, keyId, ordinal, body } = event;
    const ref = refOf(body);
    if (refs.has(ref) && published.get(ref)?.once === true) fail(`${ref} is two events, the second one ${id}`);
    refs.add(ref);
    byId.set(`${keyId} ${id}`, key);
    for (const sub of recipientsOf(rows, event)) endOf(witness, sub, ordinal, id);
  }
  for (const event of published.values()) {
    for (const id of event.accepted) {
      const stored = byId.get(`${event.keyId} ${id}`);
      const erased = isErased(witness.erasures, event, id);
      if (erased === true && stored !== undefined) fail(`${id} was erased and is stored`);
      if (stored === undefined && erased !== false) continue;
      const at = stored ?? fail(`${id} was acknowledged and is lost`);
      const recipients = recipientsOf(rows, EVENT.orThrow(rows.get(at) as string));
      for (const sub of subscriptions.values()) {
        const wanted =
          sub.keyId === event.keyId && sub.type === event.type && sub.createdAt + witness.graceMs < event.askedAt;
        const there = event.answeredAt < sub.goneAt;
        const until = event.lastAnsweredAt;
        const says = included(sub.filters, event.data, event.askedAt - witness.graceMs, until);
        if (wanted && there && says === true && !recipients.includes(sub.id)) fail(`${id} does not go to ${sub.id}`);
        if (says === false && recipients.includes(sub.id) && !event.sentTo.has(sub.id))
          fail(`${id} goes to ${sub.id}, whose filter excludes it`);
      }
    }
  }
  const bodies = new Map<string, string>();
  for (const one of seen) received(witness, one, bodies);
  requests(witness);
  const tried = witness.alone ? [...seen, ...witness.failedRuns].toSorted((a, b) => a.sentAt - b.sentAt) : seen;
  schedule({ ...witness, seen: tried });
}

const refOf = (body: string): string => /"ref":"(\w+)"/.exec(body)?.[1] ?? fail(`a body without a ref: ${body}`);

/** The end of one delivery, and the receiver's word on it. */
function endOf({ rows, seen, failedRuns }: Witness, sub: string, ordinal: string, id: string): void {
  const text = rows.get(DELIVERY.key({ subscriptionId: sub, ordinal })) ?? fail(`${id} has no end at ${sub}`);
  const delivery = DELIVERY.orThrow(text);
  const own = seen.filter((one) => one.subscriptionId === sub && one.eventId === id);
  if (delivery.status === "pending") fail(`${id} is pending at ${sub}`);
  if (delivery.status === "delivered") {
    const last = own.filter((one) => one.cycle === delivery.cycle && one.number === delivery.attempts.length);
    if (!last.some(({ answered = 0 }) => answered >= 200 && answered < 300)) fail(`${id} is not with ${sub}: ${text}`);
  }
  for (const attempt of delivery.attempts) {
    if (attempt.error === "transform") {
      const of = (one: Seen): boolean =>
        one.subscriptionId === sub && one.eventId === id && one.cycle === attempt.cycle;
      if (!failedRuns.some((one) => of(one) && one.number === attempt.number))
        fail(`${id}: attempt ${attempt.number} at ${sub} failed in a transform that did not fail`);
    }
    if (attempt.statusCode === undefined) continue;
    const made = own.some(
      (one) => one.cycle === attempt.cycle && one.number === attempt.number && one.answered === attempt.statusCode,
    );
    if (!made) fail(`${id}: attempt ${attempt.number} at ${sub} was never made`);
  }
  if (delivery.status === "failed" && delivery.reason === "exhausted" && delivery.attempts.length !== 5)
    fail(`${id} at ${sub} is exhausted after ${delivery.attempts.length}`);
}

/** Each request is of an accepted event, whole, and signed. */
function received({ published, subscriptions }: Witness, one: Seen, bodies: Map<string, string>): void {
  const ref = refOf(one.body);
  const event = published.get(ref) ?? fail(`${one.eventId} was never published`);
  if (!event.open && event.accepted.size === 0) fail(`${one.eventId} was refused, and sent`);
  if (!event.open && !event.accepted.has(one.eventId)) fail(`${one.eventId} was not accepted, and sent`);
  const createdAt = /"createdAt":"([^"]+)"/.exec(one.body)?.[1] ?? "";
  const whole = deliveryBody(one.eventId, event.type, event.keyId, Date.parse(createdAt), event.data);
  const sub = subscriptions.get(one.subscriptionId);
  const inner = untransformed(one.body);
  // The body that a transform has made is sent, and nothing else; nobody knows whether one of unknown making has a transform.
  const wanted = (sub === undefined ? inner !== undefined : sub.transform !== undefined) ? transformed(whole) : whole;
  if (one.body !== wanted) fail(`${one.eventId} was sent as ${one.body}`);
  const before = bodies.get(`${event.keyId} ${one.eventId}`);
  if (before !== undefined && before !== whole) fail(`${one.eventId} has two bodies`);
  bodies.set(`${event.keyId} ${one.eventId}`, whole);
  // Nobody was told its secret: the answer to its making, or to a rotation, was lost.
  if (sub === undefined) return;
  const bytes = Buffer.from(one.body);
  const at = Number(one.headers["webhook-timestamp"]) * 1_000;
  if (
    sub.secrets.length > 0 &&
    !sub.secrets.some(
      (secret) => verifyHex(bytes, one.headers, secret) && verifyStandard(bytes, one.headers, secret, at),
    )
  )
    fail(`${one.eventId}: a signature that no secret of ${sub.id} makes`);
}

/** No attempt is made twice without cause, none out of turn, and none when its subscription had been told to be quiet. */
function requests({ seen, subscriptions, graceMs, interrupted }: Witness): void {
  const last = new Map<string, Seen>();
  for (const one of seen) {
    if (one.number < 1 || one.number > 5) fail(`attempt ${one.number} of ${one.eventId}`);
    const name = `${one.subscriptionId} ${one.eventId} ${one.cycle} ${one.number}`;
    const before = last.get(name);
    if (before !== undefined && !interrupted(before, one)) {
      fail(
        `${name} was sent at ${before.sentAt} by ${before.node.name} and again at ${one.sentAt} by ${one.node.name}`,
      );
    }
    last.set(name, one);
    const sub = subscriptions.get(one.subscriptionId);
    for (const { answeredAt, over } of sub?.quiet ?? []) {
      // A process that stood still may have looked before it did.
      const since = Math.max(answeredAt + graceMs, one.thawedAt === one.sentAt ? one.sentAt : 0);
      if (one.sentAt > since && one.sentAt < over)
        fail(`${name} was sent at ${one.sentAt}, told to be quiet at ${answeredAt}`);
    }
  }
}
