/** Asks a simulated relay for events, subscriptions, changes of them, replays. Each is drawn by the world's own dice. */
import { TRANSFORM } from "./transforms.ts";
import { Problem } from "../../core/model/problem.ts";
import { auditChange } from "../../core/records/audit-trail.ts";
import { skipAllHeld } from "../../core/records/held.ts";
import { matches } from "./ended.ts";
import { isErased, mayGo, type Erasure } from "./erasures.ts";
import { FILTER } from "./filters.ts";
import { MOODS, type SimNet } from "./network.ts";
import type { SimNode } from "./node.ts";
import type { KnownSubscription, Published } from "./oracle.ts";
import { ORDER_BY, type Ordering } from "./order.ts";
import { fail, Violation } from "./violation.ts";
import type { World } from "./world.ts";

const ACTOR = { sub: "tester" };
const KEYS = ["k1", "k:2"];
const TYPES = ["a", "b"];
const DATA = ["1.0", "12345678901234567890", '"\\u0041\\u00e9"', "[1, 2]", '{"a":1,"a":2}', "null", '"é\u{1f600}"'];
const LONG = `:${"Z9".repeat(55)}`;
/** Failed deliveries that a replay moves at most, and how many of them are due a second. */
const REPLAYED = 100;
const PACES = [0.2, 10];
/** By then all that a replay moved is due. */
export const REPLAY_MS = (REPLAYED / Math.min(...PACES)) * 1_000;
/** A caller waits no longer than this for an answer. */
const PATIENCE_MS = 20_000;

/** Where deeds are done, and what they leave in memory for whoever judges the end. */
export interface DeedsIn {
  readonly world: World;
  readonly net: SimNet;
  /** Those that live. */
  readonly nodes: ReadonlyMap<string, SimNode>;
  readonly published: Map<string, Published>;
  readonly subscriptions: Map<string, KnownSubscription>;
  readonly erasures: Erasure[];
  /** Subscriptions whose rotation was not answered. */
  readonly unknownSecret: Set<string>;
  /** All is well again: nothing is changed any more. */
  readonly healed: () => boolean;
}

export interface Deeds {
  publish(): Promise<void>;
  subscribe(): Promise<void>;
  change(sub: KnownSubscription): Promise<void>;
  replay(): Promise<void>;
  replayAll(sub: KnownSubscription): Promise<void>;
  /** Lets those behind a held delivery go on. */
  skip(keyId: string, subscriptionId: string): Promise<void>;
  /** Disables it and enables it again: what waits for a later attempt has ended. */
  renew(keyId: string, subscriptionId: string): Promise<void>;
  /** Erases an event that was accepted. */
  erase(): Promise<void>;
  eraseKey(): Promise<void>;
}

export function deeds(place: DeedsIn): Deeds {
  const { world, net, nodes, published, subscriptions, erasures, unknownSecret, healed } = place;
  const { random, say } = world;
  let refs = 0;

  /** The answer, or undefined when there was none in time. */
  async function ask<T>(work: (node: SimNode) => Promise<T>): Promise<{ readonly value: T } | undefined> {
    const node = random.pick([...nodes.values()]);
    if (node === undefined) return undefined;
    return Promise.race([work(node).then((value) => ({ value })), world.sleep(PATIENCE_MS).then(() => undefined)]);
  }

  function make(): { readonly event: Published; readonly text: string } {
    const ref = `r${++refs}`;
    const keyId = random.pick(KEYS);
    const type = random.pick(TYPES);
    // A long one has no room in the name of a file.
    const own = random.chance(0.5) ? `order:${refs}${random.chance(0.2) ? LONG : ""}` : undefined;
    const data = `{"ref":"${ref}","x":${random.pick(DATA)}}`;
    const event: Published = {
      ...{ ref, keyId, type, data, own },
      accepted: new Set(),
      open: false,
      once: false,
      askedAt: world.now(),
      answeredAt: Infinity,
      lastAnsweredAt: Infinity,
      sentTo: new Set(),
    };
    published.set(ref, event);
    const id = own === undefined ? "" : `"id":"${own}",`;
    return { event, text: `{${id}"type":"${type}","keyId":"${keyId}","data":${data}}` };
  }

  /** One request: an event, or a few at once; now and then under an Idempotency-Key, which makes any repeat harmless. */
  async function publish(): Promise<void> {
    const made = Array.from({ length: random.chance(0.2) ? random.int(2, 4) : 1 }, make);
    const [{ event: first }] = made as [(typeof made)[0]];
    const key = random.chance(0.3) ? `key-${first.ref}` : undefined;
    const idempotency = key === undefined ? undefined : { scope: "sim", key, digest: key };
    const publications = made.map(({ text }, i) => ({ text, path: made.length === 1 ? "" : `[${i}]` }));
    for (const { event } of made) event.once = key !== undefined || event.own !== undefined;
    // Whoever heard the answer may ask once more all the same.
    let left = key !== undefined && random.chance(0.3) ? 1 : 0;
    for (let tries = 0; tries < 3 && (first.accepted.size === 0 || left-- > 0); tries++) {
      try {
        const before = made.map(({ event }) => event.open);
        // Until the answer is there, it may be stored.
        for (const { event } of made) event.open = true;
        const answer = await ask((node) => node.parts.publisher.accept({ publications, idempotency, source: "sim" }));
        for (const [i, accepted] of (answer?.value ?? []).entries()) {
          const { event } = made[i] as (typeof made)[0];
          event.accepted.add(accepted.id);
          event.answeredAt = Math.min(event.answeredAt, world.now());
          event.lastAnsweredAt = world.now();
          event.open = tries > 0 && !event.once && before[i] === true;
          say(`${accepted.id} is accepted as ${event.ref}`);
        }
        if (answer !== undefined && left === 0) return;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        say(`${first.ref} is refused: ${error.code} ${error.message}`);
        if (tries === 0 && /nothing was stored/i.test(error.message)) for (const { event } of made) event.open = false;
      }
      if (random.chance(0.5)) return;
      await world.sleep(random.int(10, 5_000));
    }
  }

  async function subscribe(): Promise<void> {
    const keyId = random.pick(KEYS);
    const type = random.pick(TYPES);
    const filtered = random.chance(0.3);
    const ordering: Ordering | undefined = random.chance(0.4)
      ? { by: random.chance(0.3), hold: random.chance(0.4), releasedAt: [] }
      : undefined;
    const transform = random.chance(0.3) ? TRANSFORM : undefined;
    const fields = {
      url: "https://receiver.example/hook",
      events: [type],
      filter: filtered ? FILTER : undefined,
      transform,
      ...(ordering !== undefined && {
        ordered: true,
        ...(ordering.by && { orderBy: ORDER_BY }),
        onFailed: ordering.hold ? ("hold" as const) : ("skip" as const),
      }),
    };
    const askedAt = world.now();
    const made = await ask((node) => node.parts.subscriptions.create(keyId, fields, ACTOR));
    if (made === undefined) return;
    const { subscription, secret } = made.value;
    say(`${subscription.id} is made for ${keyId} ${type}`);
    subscriptions.set(subscription.id, {
      id: subscription.id,
      keyId,
      type,
      secrets: [secret],
      createdAt: world.now(),
      quiet: [],
      goneAt: mayGo(erasures, keyId, askedAt) ? askedAt : Infinity,
      enabledAt: -1,
      filters: [{ filtered, from: -Infinity, until: Infinity, answered: true }],
      transform,
      ordering,
    });
    if (random.chance(0.6) && !healed()) net.moods.set(subscription.id, random.pick(MOODS));
  }

  /** Asks something of a subscription that may be refused now and then. */
  async function change(sub: KnownSubscription): Promise<void> {
    const what = random.pick(["disable", "disable", "enable", "enable", "delete", "rotate", "filter"] as const);
    if (healed()) return;
    say(`${what} ${sub.id}`);
    const asked = world.now();
    if (what !== "rotate" && what !== "filter") sub.ordering?.releasedAt.push(asked);
    if (what === "delete") sub.goneAt = Math.min(sub.goneAt, asked);
    const over = Infinity;
    try {
      if (what === "rotate") {
        const answer = await ask((node) =>
          node.parts.subscriptions.rotate(sub.keyId, sub.id, random.pick([0, 60_000]), ACTOR),
        );
        if (answer !== undefined) sub.secrets.push(answer.value.secret);
        else unknownSecret.add(sub.id);
        return;
      }
      if (what === "filter") {
        const span = { filtered: random.chance(0.5), from: asked, until: Infinity, answered: false };
        // Of changes at the same time, and of one without an answer, nobody knows which came last.
        const before = sub.filters.filter(({ answered }) => answered);
        sub.filters.push(span);
        const patch = { filter: span.filtered ? FILTER : null };
        const answer = await ask((node) => node.parts.subscriptions.update(sub.keyId, sub.id, patch, ACTOR));
        if (answer === undefined) return;
        span.answered = true;
        for (const old of before) old.until = Math.min(old.until, world.now());
        return;
      }
      if (what === "enable") {
        for (const quiet of sub.quiet) quiet.over = Math.min(quiet.over, asked);
        sub.enabledAt = Infinity;
        const answer = await ask((node) =>
          node.parts.subscriptions.update(sub.keyId, sub.id, { status: "active" }, ACTOR),
        );
        if (answer !== undefined) sub.enabledAt = world.now();
        return;
      }
      const answer = await ask<unknown>((node) =>
        what === "delete"
          ? node.parts.subscriptions.remove(sub.keyId, sub.id, ACTOR)
          : node.parts.subscriptions.update(sub.keyId, sub.id, { status: "disabled" }, ACTOR),
      );
      if (answer === undefined || (what === "disable" && sub.enabledAt >= asked)) return;
      say(`${what} ${sub.id} is answered`);
      sub.quiet.push({ askedAt: asked, answeredAt: world.now(), over });
    } catch (error) {
      if (what === "rotate") unknownSecret.add(sub.id);
      say(`${what} ${sub.id} failed: ${String(error)}`);
    }
  }

  async function replay(): Promise<void> {
    const events = [...published.values()].filter(({ accepted }) => accepted.size > 0);
    if (events.length === 0) return;
    const event = random.pick(events);
    const sub = random.chance(0.4) && subscriptions.size > 0 ? random.pick([...subscriptions.values()]) : undefined;
    const [id] = event.accepted;
    const options = { force: random.chance(0.3), subscriptionId: sub?.id };
    say(`replay ${id} ${JSON.stringify(options)}`);
    if (sub !== undefined) event.sentTo.add(sub.id);
    await ask((node) => node.parts.replay.event(event.keyId, id as string, options)).catch((error: unknown) =>
      say(`replay of ${id} failed: ${String(error)}`),
    );
  }

  async function replayAll(sub: KnownSubscription): Promise<void> {
    await ask(async (node) => {
      const subscription = await node.parts.subscriptionCache.get(sub.keyId, sub.id);
      if (subscription === undefined || subscription.status !== "active" || subscription.deletedAt !== undefined)
        return;
      say(`replay all that failed at ${sub.id}`);
      await matches(node.parts, subscription);
      await node.parts.replay.failed({ subscription, limit: REPLAYED, perSecond: random.pick(PACES) });
    }).catch((error: unknown) => {
      if (error instanceof Violation) throw error;
      say(`replay failed: ${String(error)}`);
    });
  }

  async function skip(keyId: string, id: string): Promise<void> {
    subscriptions.get(id)?.ordering?.releasedAt.push(world.now());
    await ask(async ({ parts }) => {
      const skipped = await skipAllHeld(parts.storage, { keyId, id });
      if (skipped.length > 0) say(`skip ${skipped.map(({ row }) => row?.eventId).join(" ")} at ${id}`);
    }).catch((error: unknown) => say(`skipping failed: ${String(error)}`));
  }

  async function renew(keyId: string, id: string): Promise<void> {
    const sub = subscriptions.get(id);
    const asked = world.now();
    sub?.ordering?.releasedAt.push(asked);
    for (const quiet of sub?.quiet ?? []) quiet.over = Math.min(quiet.over, asked);
    say(`renew ${id}`);
    for (const status of ["disabled", "active"] as const)
      await ask((node) => node.parts.subscriptions.update(keyId, id, { status }, ACTOR)).catch((error: unknown) =>
        say(`renewing ${id} failed: ${String(error)}`),
      );
  }

  async function erase(): Promise<void> {
    const events = [...published.values()].filter(({ accepted }) => accepted.size > 0);
    if (events.length === 0) return;
    const event = random.pick(events);
    const { keyId, accepted } = event;
    const eventId = random.pick([...accepted]);
    const wasErased = erasures.some(
      (one) => one.keyId === keyId && one.eventId === eventId && one.answeredAt < Infinity,
    );
    const mayBeGone = isErased(erasures, event, eventId) !== false;
    const one: Erasure = {
      ...{ keyId, eventId, askedAt: world.now(), answeredAt: Infinity, doneAt: Infinity },
      repeated: false,
    };
    erasures.push(one);
    // It lets those go on that wait behind it.
    const releases = [...subscriptions.values()].filter((sub) => sub.keyId === keyId && sub.ordering !== undefined);
    for (const { ordering } of releases) ordering?.releasedAt.push(world.now());
    say(`erase ${eventId} of ${keyId}`);
    try {
      const line = { action: "event.erased", target: eventId } as const;
      const audit = auditChange(keyId, ACTOR, world, line);
      const answer = await ask((node) => node.parts.eventErasure.erase(keyId, eventId, [audit]));
      if (answer === undefined) return;
      one.answeredAt = world.now();
      say(`${eventId} is erased`);
    } catch (error) {
      say(`${eventId} is not erased: ${String(error)}`);
      if (error instanceof Problem && error.code === "NOT_FOUND" && !mayBeGone && !unsure(one))
        fail(`${eventId} was accepted, and is not found when it is to be erased`);
      return;
    }
    if (wasErased) fail(`${eventId} was erased, and is erased once more`);
  }

  /** Returns true when another erasure of the event, or of its key, was asked for while this one was. */
  const unsure = (one: Erasure): boolean =>
    erasures.some(
      ({ keyId, eventId }, i) =>
        i > erasures.indexOf(one) && keyId === one.keyId && (eventId === undefined || eventId === one.eventId),
    );

  async function eraseKey(): Promise<void> {
    const keyId = random.pick(KEYS);
    const asked = world.now();
    const one: Erasure = {
      ...{ keyId, askedAt: asked, answeredAt: Infinity, doneAt: Infinity },
      repeated: mayGo(erasures, keyId, asked),
    };
    erasures.push(one);
    for (const sub of subscriptions.values()) {
      if (sub.keyId !== keyId) continue;
      sub.goneAt = Math.min(sub.goneAt, asked);
      sub.ordering?.releasedAt.push(asked);
    }
    say(`erase ${keyId}`);
    const answer = await ask((node) => node.parts.keyErasure.erase(keyId, ACTOR)).catch((error: unknown) =>
      say(`erasing ${keyId} failed: ${String(error)}`),
    );
    if (answer === undefined) return;
    one.answeredAt = world.now();
    say(`the erasure of ${keyId} has begun`);
  }

  return { publish, subscribe, change, replay, replayAll, skip, renew, erase, eraseKey };
}
