/**
 * Erases an API key with all that is its own, as a job: a row says that it is wanted and how far it is, and every step
 * finds by itself what it has left to do. So a crash costs nothing, and no commit grows with what is deleted.
 *
 * First its subscriptions are deleted, on every node. Only then is it settled up to which event it erases: all that have
 * a delivery to one of them. What is published or created after the request is a new life of the key, and stays.
 */
import { ConflictError, untilCommitted } from "../model/errors.ts";
import { ordinalFloor } from "../model/ids.ts";
import { DAMAGED, unlessDamaged } from "../model/kind.ts";
import {
  ATTENTION,
  COUNT,
  ERASE_KEY,
  EVENT,
  EVENT_ID,
  FANOUT,
  type EraseJob,
  OF_SUBSCRIPTION,
  ordinalOf,
  PORTAL,
  STATS,
  SUBSCRIPTION,
} from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { auditChange, RELAY, type Actor } from "../records/audit-trail.ts";
import { readEvent } from "../records/damage.ts";
import { everyEntry } from "../records/every-entry.ts";
import { readSubscription } from "../records/subscription-record.ts";
import { tryCommit } from "../records/transaction.ts";
import type { EventErasure } from "./erase-event.ts";
import type { Removing } from "./remove-delivery.ts";
import { tidyWide } from "./remove-wide.ts";
import { createRounds } from "./rounds.ts";

export interface KeyErasure {
  /**
   * Resolves when the erasure is stored as wanted; the work follows. While one is under way, it changes nothing.
   * @returns when it began, epoch ms
   */
  erase(keyId: string, actor: Actor): Promise<number>;
  /** Continues what an earlier process has left. */
  start(): void;
  stop(): Promise<void>;
}

const ROWS = 500;
/** How often what changed meanwhile is read again in one round. */
const TRIES = 16;
const EVENTS = 32;
/** How far the clock of another node may be ahead, ms. */
const AHEAD_MS = 60_000;

interface EraseDeps {
  readonly storage: Removing;
  readonly events: Pick<EventErasure, "eraseRead">;
  /** Deletes a subscription, and resolves when nothing of it is sent any more, by any node. */
  readonly removeSubscription: (keyId: string, id: string, actor: Actor) => Promise<void>;
  /** Drops all events from every node's cache. */
  readonly forgetAll: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "warn">;
}

export function createKeyErasure(deps: EraseDeps): KeyErasure {
  const { storage, clock, log } = deps;
  const rounds = createRounds({ work: workAll, clock, log });

  async function work(keyId: string, text: string, signal: AbortSignal): Promise<void> {
    const job = ERASE_KEY.read(text);
    if (job === DAMAGED) throw new Error("its record is damaged: ask for it again");
    if (job.until === undefined) {
      await removeSubscriptions(deps, keyId, job, signal);
      const until = await settle(deps, keyId, signal);
      if (until === undefined) return;
      await tryCommit(storage, [ERASE_KEY.put({ keyId }, { ...job, ahead: undefined, until }, text)]);
      const next = await storage.getItem(ERASE_KEY.key({ keyId }));
      if (next !== undefined && next !== text) await work(keyId, next, signal);
      return;
    }
    const count = await eraseUntil(deps, keyId, { at: job.at, until: job.until }, signal);
    if (count === undefined) return;
    const live = await storage.getItem(COUNT.key({ keyId }));
    const changes: Change[] = [
      ERASE_KEY.delete({ keyId }, text),
      auditChange(keyId, RELAY, clock, { action: "key.erased", target: keyId, detail: "done" }),
    ];
    if (live === "0") changes.push(COUNT.delete({ keyId }, live));
    if (await tryCommit(storage, changes)) log.info("an API key was erased", { keyId, count });
  }

  async function workAll(signal: AbortSignal): Promise<void> {
    for await (const { key, value } of everyEntry(storage, ERASE_KEY.start)) {
      if (signal.aborted) return;
      const keyId = ERASE_KEY.id(key).keyId;
      // One that cannot go on now does not stop the others.
      await work(keyId, value, signal).catch((error: unknown) => {
        if (!signal.aborted) log.warn("the erasure of an API key waits", { keyId, error: String(error) });
      });
    }
  }

  return {
    async erase(keyId, actor) {
      const at = clock.now();
      const ahead = await youngerThan(storage, keyId, at);
      const job: EraseJob = { at, actor, ...(ahead.length > 0 && { ahead }) };
      const row = ERASE_KEY.key({ keyId });
      const before = await storage.getItem(row);
      await tryCommit(storage, [
        // A damaged one cannot go on, and is begun again.
        ERASE_KEY.put({ keyId }, job, ERASE_KEY.read(before) === DAMAGED ? before : null),
        PORTAL.delete({ keyId }),
        auditChange(keyId, actor, clock, { action: "key.erased", target: keyId, detail: "begun" }),
      ]);
      const text = await storage.getItem(row);
      rounds.wake();
      return unlessDamaged(ERASE_KEY.read(text))?.at ?? job.at;
    },
    start: rounds.start,
    stop: rounds.stop,
  };
}

/** Returns the subscriptions that were created later by the clock: on a node whose clock is ahead. */
async function youngerThan(storage: Pick<Storage, "range">, keyId: string, at: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.under({ keyId })))
    if (readSubscription(value, key).createdAt > at) ids.push(SUBSCRIPTION.id(key).id);
  return ids;
}

async function removeSubscriptions(
  { storage, removeSubscription }: EraseDeps,
  keyId: string,
  { at, ahead, actor }: EraseJob,
  signal: AbortSignal,
): Promise<void> {
  for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.under({ keyId }))) {
    signal.throwIfAborted();
    const { deletedAt, createdAt, ending } = readSubscription(value, key);
    const { id } = SUBSCRIPTION.id(key);
    if (deletedAt === undefined ? createdAt <= at || ahead?.includes(id) : ending === true)
      await removeSubscription(keyId, id, actor);
  }
}

/**
 * Returns up to where events are erased: the newest that there is, for all with a delivery to a deleted subscription are
 * older. Events from a clock that is ahead are erased first and do not count, or else what is published from now on
 * would be erased too.
 * @returns `undefined` when one of those changed all the time
 */
async function settle(deps: EraseDeps, keyId: string, signal: AbortSignal): Promise<string | undefined> {
  const { storage, clock } = deps;
  const now = clock.now();
  const ahead = EVENT.key({ keyId, ordinal: ordinalFloor(now + AHEAD_MS) });
  const [youngest] = await storage.range(EVENT.under({ keyId }), { reverse: true, limit: 1 });
  if (youngest !== undefined && youngest.key > ahead) {
    const { left } = await eraseEvents(deps, keyId, ahead, ordinalOf(youngest.key), signal);
    if (left > 0) return undefined;
  }
  const [last] = await storage.range(EVENT.under({ keyId }), { reverse: true, after: ahead, limit: 1 });
  return last === undefined ? ordinalFloor(now + 1) : ordinalOf(last.key);
}

/**
 * Erases all that is older than the request.
 * @returns how many events that were; `undefined` when some changed all the time: the next round tries it again
 */
async function eraseUntil(
  deps: EraseDeps,
  keyId: string,
  { at, until }: { readonly at: number; readonly until: string },
  signal: AbortSignal,
): Promise<number | undefined> {
  const { storage, forgetAll } = deps;
  const isLeft = async (kind: typeof EVENT | typeof FANOUT): Promise<boolean> => {
    const [first] = await storage.range(kind.under({ keyId }), { limit: 1 });
    return first !== undefined && ordinalOf(first.key) <= until;
  };
  const { erased } = await eraseEvents(deps, keyId, undefined, until, signal);
  await forgetAll();
  if (await isLeft(EVENT)) return undefined;
  // The first finishes what is half removed, the second closes snapshots that nothing uses, the third deletes them.
  for (let times = 0; times < 3; times++) {
    await tidyWide(storage, keyId, signal);
    if (await isLeft(FANOUT)) return undefined;
  }
  for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.under({ keyId }))) {
    const { deletedAt, ending } = readSubscription(value, key);
    if (deletedAt === undefined || ending === true) continue;
    const { id: subscriptionId } = SUBSCRIPTION.id(key);
    for (const kind of OF_SUBSCRIPTION) await purge(storage, kind.under({ keyId, subscriptionId }), signal);
    await tryCommit(storage, [{ op: "delete", key, if: value }]);
  }
  if (!(await purgeIds(storage, keyId, until, signal))) return await eraseUntil(deps, keyId, { at, until }, signal);
  await purge(storage, ATTENTION.under({ keyId }), signal);
  await purge(storage, STATS.under({ keyId }), signal, ({ key }) => STATS.id(key).at <= at);
  return erased;
}

/** Erases the events from one row up to an ordinal. @returns how many, and how many are left that changed all the time */
async function eraseEvents(
  { storage, events, clock }: EraseDeps,
  keyId: string,
  from: string | undefined,
  until: string,
  signal: AbortSignal,
): Promise<{ readonly erased: number; readonly left: number }> {
  let erased = 0;
  let left = 0;
  for (let after = from; ;) {
    signal.throwIfAborted();
    const began = clock.monotonic();
    const page: readonly Entry[] = await storage.range(EVENT.under({ keyId }), { after, limit: EVENTS });
    const mine = page.filter(({ key }) => ordinalOf(key) <= until);
    const done = await Promise.all(mine.map((row) => eraseEvent(storage, events, keyId, row)));
    erased += done.filter(Boolean).length;
    left += done.filter((one) => !one).length;
    if (mine.length < EVENTS) return { erased, left };
    after = mine.at(-1)?.key;
    // As long as it has worked, deliveries get the storage for themselves.
    const tookMs = clock.monotonic() - began;
    if (tookMs > 0) await clock.sleep(clock.now() + tookMs, signal);
  }
}

/** @returns false when it changed all the time, or another node has erased it */
async function eraseEvent(
  storage: Pick<Storage, "getItem">,
  events: EraseDeps["events"],
  keyId: string,
  { key, value }: Entry,
): Promise<boolean> {
  let text: string | undefined = value;
  const erasing = untilCommitted(async () => {
    text ??= await storage.getItem(key);
    if (text === undefined) return false;
    const read = { ...readEvent(keyId, ordinalOf(key), text), text };
    text = undefined;
    await events.eraseRead(read);
    return true;
  }, TRIES);
  return await erasing.catch((error: unknown) => {
    if (!(error instanceof ConflictError)) throw error;
    return false;
  });
}

/** Deletes the rows of a prefix, a page at a time. @throws Error when they change all the time */
async function purge(
  storage: Pick<Storage, "range" | "commit">,
  prefix: string,
  signal: AbortSignal,
  is: (row: Entry) => boolean = () => true,
): Promise<void> {
  for (let tries = 0, after: string | undefined; tries < TRIES;) {
    signal.throwIfAborted();
    const page: readonly Entry[] = await storage.range(prefix, { after, limit: ROWS });
    const changes = page.filter(is).map(({ key, value }): Change => ({ op: "delete", key, if: value }));
    if (changes.length > 0 && !(await tryCommit(storage, changes))) {
      tries++;
      continue;
    }
    if (page.length < ROWS) return;
    after = page.at(-1)?.key;
  }
  throw new Error(`rows under ${prefix} change all the time`);
}

/**
 * Deletes the ids of erased events. What keeps such an id taken sorts after every ordinal, and stays.
 * @returns false when one of these events is there: its node took long to store it, and it is to be erased with its id
 */
async function purgeIds(
  storage: Pick<Storage, "getItem" | "range" | "commit">,
  keyId: string,
  until: string,
  signal: AbortSignal,
): Promise<boolean> {
  for await (const { key, value } of everyEntry(storage, EVENT_ID.under({ keyId }))) {
    signal.throwIfAborted();
    if (value > until) continue;
    const unlessThere: readonly Change[] = [
      { op: "check", key: EVENT.key({ keyId, ordinal: value }), if: null },
      { op: "delete", key, if: value },
    ];
    if (!(await tryCommit(storage, unlessThere)) && (await storage.getItem(key)) === value) return false;
  }
  return true;
}
