/**
 * Erases an API key with all that is its own, as a job: a row says that it is wanted and how far it is, and every step
 * finds by itself what it has left to do. So a crash costs nothing, and no commit grows with what is deleted.
 *
 * First its subscriptions are deleted, on every node. Only then is it settled up to which event it erases: all that have
 * a delivery to one of them. What is published or created after the request is a new life of the key, and stays.
 */
import {
  COUNT,
  ERASE_KEY,
  EVENT,
  EVENT_ID,
  FANOUT,
  type EraseJob as Job,
  OF_SUBSCRIPTION,
  ordinalOf,
  PORTAL,
  STATS,
  SUBSCRIPTION,
} from "../model/schema.ts";
import { DAMAGED, unlessDamaged } from "../model/kind.ts";
import { ordinalFloor } from "../model/ids.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { RELAY, type Actor, type AuditLine } from "../records/audit-trail.ts";
import { readEvent } from "../records/damage.ts";
import { erasedAt } from "../records/erased-id.ts";
import { everyEntry } from "../records/every-entry.ts";
import { readSubscription } from "../records/subscription-record.ts";
import { tryCommit } from "../records/transaction.ts";
import type { EventErasure } from "./erase-event.ts";
import type { WideRemoval } from "./remove-wide.ts";
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

/** Rows that are deleted together. */
const ROWS = 500;
/** How often what changed meanwhile is read again in one round. */
const TRIES = 16;
/** Events that are erased together. */
const EVENTS = 32;
/** How far the clock of another node may be ahead, ms. */
const AHEAD_MS = 60_000;

type AuditOf = (keyId: string, actor: Actor, line: Pick<AuditLine, "action" | "target" | "detail">) => Change;

export function createKeyErasure(deps: {
  readonly storage: Pick<Storage, "getItem" | "range" | "commit">;
  readonly events: Pick<EventErasure, "eraseRead">;
  readonly wide: Pick<WideRemoval, "tidy">;
  /** Deletes a subscription, and resolves when nothing of it is sent any more, by any node. */
  readonly removeSubscription: (keyId: string, id: string, actor: Actor) => Promise<void>;
  /** Drops all events from every node's cache. */
  readonly forgetAll: () => Promise<void>;
  readonly audit: AuditOf;
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "warn">;
}): KeyErasure {
  const { storage, events, wide, removeSubscription, forgetAll, audit, clock, log } = deps;
  const rounds = createRounds({ work: workAll, clock, log });
  const keyEvents = createKeyEvents({ storage, events, clock });

  async function removeSubscriptions(keyId: string, { at, ahead, actor }: Job, signal: AbortSignal): Promise<void> {
    for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.under({ keyId }))) {
      signal.throwIfAborted();
      const sub = readSubscription(value, key);
      const { id } = SUBSCRIPTION.id(key);
      const live = sub.deletedAt === undefined;
      if (live ? sub.createdAt <= at || ahead?.includes(id) : sub.ending === true)
        await removeSubscription(keyId, id, actor);
    }
  }

  /** Deletes the rows of a prefix, a page at a time. */
  async function purge(prefix: string, signal: AbortSignal, is: (row: Entry) => boolean = () => true): Promise<void> {
    for (let tries = 0, after: string | undefined; tries < TRIES;) {
      signal.throwIfAborted();
      const page: readonly Entry[] = await storage.range(prefix, { after, limit: ROWS });
      const mine = page.filter(is);
      const changes = mine.map(({ key, value }) => ({ op: "delete", key, if: value }) as const);
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
   * Deletes the ids of erased events.
   * @returns false when one of these events is there: its node took long to store it, and it is to be erased with its id
   */
  async function purgeIds(keyId: string, until: string, signal: AbortSignal): Promise<boolean> {
    for await (const { key, value } of everyEntry(storage, EVENT_ID.under({ keyId }))) {
      signal.throwIfAborted();
      if (erasedAt(value) !== undefined || value > until) continue;
      const unlessThere: readonly Change[] = [
        { op: "check", key: EVENT.key({ keyId, ordinal: value }), if: null },
        { op: "delete", key, if: value },
      ];
      if (!(await tryCommit(storage, unlessThere)) && (await storage.getItem(key)) === value) return false;
    }
    return true;
  }

  /** Deletes what is left of a deleted subscription, and at last its record. */
  async function purgeSubscription(keyId: string, { key, value }: Entry, signal: AbortSignal): Promise<void> {
    const { id: subscriptionId } = SUBSCRIPTION.id(key);
    for (const kind of OF_SUBSCRIPTION) await purge(kind.under({ keyId, subscriptionId }), signal);
    await tryCommit(storage, [{ op: "delete", key, if: value }]);
  }

  async function work(keyId: string, text: string, signal: AbortSignal): Promise<void> {
    const job = ERASE_KEY.read(text);
    if (job === DAMAGED) throw new Error("its record is damaged: ask for it again");
    const row = ERASE_KEY.key({ keyId });
    if (job.until === undefined) {
      await removeSubscriptions(keyId, job, signal);
      const settled = await keyEvents.settle(keyId, signal);
      if (settled === undefined) return;
      await tryCommit(storage, [ERASE_KEY.put({ keyId }, { ...job, ahead: undefined, until: settled }, text)]);
      const next = await storage.getItem(row);
      if (next !== undefined && next !== text) await work(keyId, next, signal);
      return;
    }
    const { until } = job;
    const { erased } = await keyEvents.erase(keyId, undefined, until, signal);
    await forgetAll();
    const [first] = await storage.range(EVENT.under({ keyId }), { limit: 1 });
    // One that changed all the time: the next round tries it again.
    if (first !== undefined && ordinalOf(first.key) <= until) return;
    // The first finishes what is half removed, the second closes snapshots that nothing uses, the third deletes them.
    for (let times = 0; times < 3; times++) {
      await wide.tidy(keyId, signal);
      const [wideRow] = await storage.range(FANOUT.under({ keyId }), { limit: 1 });
      if (wideRow !== undefined && ordinalOf(wideRow.key) <= until) return;
    }
    for await (const one of everyEntry(storage, SUBSCRIPTION.under({ keyId })))
      if (isOver(readSubscription(one.value, one.key))) await purgeSubscription(keyId, one, signal);
    if (!(await purgeIds(keyId, until, signal))) return await work(keyId, text, signal);
    await purge(STATS.under({ keyId }), signal, ({ key }) => STATS.id(key).at <= job.at);
    const count = await storage.getItem(COUNT.key({ keyId }));
    const changes: Change[] = [
      { op: "delete", key: row, if: text },
      audit(keyId, RELAY, { action: "key.erased", target: keyId, detail: "done" }),
    ];
    if (count === "0") changes.push(COUNT.delete({ keyId }, count));
    if (await tryCommit(storage, changes)) log.info("an API key was erased", { keyId, count: erased });
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
      const job: Job = { at, actor, ...(ahead.length > 0 && { ahead }) };
      const row = ERASE_KEY.key({ keyId });
      const before = await storage.getItem(row);
      await tryCommit(storage, [
        // A damaged one cannot go on, and is begun again.
        ERASE_KEY.put({ keyId }, job, ERASE_KEY.read(before) === DAMAGED ? before : null),
        PORTAL.delete({ keyId }),
        audit(keyId, actor, { action: "key.erased", target: keyId, detail: "begun" }),
      ]);
      const text = await storage.getItem(row);
      rounds.wake();
      return unlessDamaged(ERASE_KEY.read(text))?.at ?? job.at;
    },
    start: rounds.start,
    stop: rounds.stop,
  };
}

async function youngerThan(storage: Pick<Storage, "range">, keyId: string, at: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.under({ keyId })))
    if (readSubscription(value, key).createdAt > at) ids.push(SUBSCRIPTION.id(key).id);
  return ids;
}

/** Whether a subscription is deleted, to its end. */
const isOver = (sub: Subscription): boolean => sub.deletedAt !== undefined && sub.ending !== true;

/** Erases the events of a key that is being erased: settles up to which, and erases them in pages, fairly to deliveries. */
function createKeyEvents(deps: {
  readonly storage: Pick<Storage, "getItem" | "range">;
  readonly events: Pick<EventErasure, "eraseRead">;
  readonly clock: Clock;
}) {
  const { storage, events, clock } = deps;

  /** @returns false when it changed all the time */
  async function eraseEvent(keyId: string, { key, value }: Entry): Promise<boolean> {
    let text: string | undefined = value;
    for (let tries = 0; tries < TRIES && text !== undefined; tries++) {
      if (await events.eraseRead({ ...readEvent(keyId, ordinalOf(key), text), text }, [])) return true;
      text = await storage.getItem(key);
    }
    return false;
  }

  /**
   * Returns up to where events are erased: the newest that there is, for all with a delivery to a deleted subscription are
   * older. Events from a clock that is ahead are erased first and do not count, or else what is published from now on
   * would be erased too.
   * @returns `undefined` when one of those changed all the time
   */
  async function settleUntil(keyId: string, signal: AbortSignal): Promise<string | undefined> {
    const now = clock.now();
    const ahead = EVENT.key({ keyId, ordinal: ordinalFloor(now + AHEAD_MS) });
    const [youngest] = await storage.range(EVENT.under({ keyId }), { reverse: true, limit: 1 });
    if (youngest !== undefined && youngest.key > ahead) {
      const { left } = await eraseEvents(keyId, ahead, ordinalOf(youngest.key), signal);
      if (left > 0) return undefined;
    }
    const [last] = await storage.range(EVENT.under({ keyId }), { reverse: true, after: ahead, limit: 1 });
    return last === undefined ? ordinalFloor(now + 1) : ordinalOf(last.key);
  }

  /** Erases the events from one row up to an ordinal. @returns how many, and how many are left that changed all the time */
  async function eraseEvents(
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
      const done = await Promise.all(mine.map((row) => eraseEvent(keyId, row)));
      erased += done.filter(Boolean).length;
      left += done.filter((one) => !one).length;
      if (mine.length < EVENTS) return { erased, left };
      after = mine.at(-1)?.key;
      // As long as it has worked, deliveries get the storage for themselves.
      const tookMs = clock.monotonic() - began;
      if (tookMs > 0) await clock.sleep(clock.now() + tookMs, signal);
    }
  }

  return { settle: settleUntil, erase: eraseEvents };
}
