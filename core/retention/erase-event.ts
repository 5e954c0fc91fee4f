/**
 * Erases one event: its record and its deliveries, whatever their state. The first commit deletes the record, so that
 * nothing of it is read or sent any more, with the audit line that says so. The deliveries of a wide event follow in
 * pages; a row in an index brings every node back to them after a crash.
 */
import type { Due } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { DAMAGED } from "../model/kind.ts";
import { DUE, ERASING, EVENT, FANOUT, fanoutQueue, REPLAYED, SUBSCRIPTION } from "../model/schema.ts";
import { noSuch, Problem } from "../model/problem.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { keepErasedId, tellErased } from "../records/erased-id.ts";
import { locateEvent, type Located } from "../records/find-event.ts";
import { everyEntry, everyPage } from "../records/every-entry.ts";
import { tryCommit } from "../records/transaction.ts";
import type { EndTurns } from "./end-turns.ts";
import { removalOf, removeDelivery, type RemovedDelivery } from "./remove-delivery.ts";
import type { WideRemoval } from "./remove-wide.ts";
import { createRounds } from "./rounds.ts";

export interface EventErasure {
  /**
   * Resolves when the event is gone, and no node begins an attempt of it.
   * @param also changes for the same commit (an audit line)
   * @throws Problem NOT_FOUND, or CONFLICT when its deliveries change all the time; StorageError
   */
  erase(keyId: string, eventId: string, also: readonly Change[]): Promise<void>;
  /**
   * Erases an event as it was read. Other nodes may still have it in their caches.
   * @returns false, with nothing erased of it but deliveries, when it changed meanwhile
   */
  eraseRead(located: Located, also: readonly Change[]): Promise<boolean>;
  /** Continues, every 30 s, what an erasure of a wide event has left. */
  start(): void;
  stop(): Promise<void>;
}

/** How often an erasure is repeated when a delivery of the event changed meanwhile. */
const TRIES = 64;
/** Deliveries of a damaged event that one commit deletes. */
const PAGE = 250;

export function createEventErasure(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit"> & {
    readonly queue: Pick<Storage["queue"], "add">;
  };
  readonly wide: Pick<WideRemoval, "finish">;
  readonly endTurns: EndTurns;
  /** Drops the event from every node's cache. */
  readonly forget: (ordinal: string) => Promise<void>;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}): EventErasure {
  const { storage, wide, endTurns, forget, clock, log } = deps;
  const rounds = createRounds({ work: finishAll, clock, log });

  function isDue(removed: readonly RemovedDelivery[]): void {
    const lines: readonly Due[] = removed.flatMap(({ next }) => next ?? []);
    if (lines.length > 0) storage.queue.add(lines);
  }

  /** Deletes the deliveries of a damaged event: it cannot say which it has, so each subscription of its key is asked. */
  async function eraseUnlisted(event: RelayEvent): Promise<void> {
    for await (const page of everyPage(storage, SUBSCRIPTION.under({ keyId: event.keyId }), { limit: PAGE })) {
      const ids = page.map(({ key }) => SUBSCRIPTION.id(key).id);
      for (let tries = 0; ; tries++) {
        if (tries === TRIES) throw changing();
        const removed = await Promise.all(ids.map((id) => removeDelivery(storage, event, id)));
        if (!(await tryCommit(storage, changesOf(removed)))) continue;
        isDue(removed);
        break;
      }
    }
  }

  /** Returns what turns a wide event into one that is being removed; nothing for other events. */
  async function removing({ keyId, ordinal, acceptedAt, subscriptionIds }: RelayEvent): Promise<readonly Change[]> {
    const key = FANOUT.key({ keyId, ordinal });
    const line = DUE.key({ subscriptionId: fanoutQueue(keyId), dueAt: acceptedAt, ordinal });
    const [row, unwritten] = await storage.getMany([key, line]);
    if (row === undefined) return [];
    // Without its line nothing more of the fan-out is written.
    const rest: Change = unwritten === undefined ? { op: "check", key: line, if: null } : removalOf(line, unwritten);
    const known = FANOUT.read(row);
    if (known === DAMAGED) return [removalOf(key, row), tellErased(ordinal), rest];
    const gone = { snapshot: known.snapshot, state: "removing", removed: 0, added: subscriptionIds } as const;
    return [FANOUT.put({ keyId, ordinal }, gone, row), ERASING.put({ keyId, ordinal }, ""), tellErased(ordinal), rest];
  }

  async function eraseOnce({ event, text, damaged }: Located, also: readonly Change[]): Promise<boolean> {
    const { keyId, ordinal, id } = event;
    const row = damaged || event.wide !== undefined ? await storage.getItem(FANOUT.key({ keyId, ordinal })) : undefined;
    if (damaged || FANOUT.read(row) === DAMAGED) await eraseUnlisted(event);
    const asWide = await removing(event);
    const listed = asWide.length > 0 ? [] : event.subscriptionIds;
    const removed = await Promise.all(listed.map((sub) => removeDelivery(storage, event, sub)));
    const done = await tryCommit(storage, [
      removalOf(EVENT.key({ keyId, ordinal }), text),
      REPLAYED.delete({ keyId, ordinal }),
      ...keepErasedId(keyId, id, ordinal, clock.now()),
      ...asWide,
      ...changesOf(removed),
      ...also,
    ]);
    if (!done) return false;
    isDue(removed);
    if (asWide.length > 0) rounds.wake();
    return true;
  }

  async function finishAll(signal: AbortSignal): Promise<void> {
    for await (const { key } of everyEntry(storage, ERASING.start)) {
      if (signal.aborted) return;
      // One that cannot go on now does not stop the others.
      await finish(key, signal).catch((error: unknown) => log.warn("an erasure waits", { key, error: String(error) }));
    }
  }

  async function finish(key: string, signal: AbortSignal): Promise<void> {
    const { keyId, ordinal } = ERASING.id(key);
    await wide.finish(keyId, ordinal, signal);
    const left = await storage.getItem(FANOUT.key({ keyId, ordinal }));
    if (left === undefined) await storage.commit([{ op: "delete", key }]);
  }

  return {
    async erase(keyId, eventId, also) {
      for (let tries = 0; tries < TRIES; tries++) {
        const located = await locateEvent(storage, keyId, eventId);
        if (located === undefined) throw noSuch("event");
        if (tries === 0 && !located.damaged) await endTurns(located.event);
        if (!(await eraseOnce(located, also))) continue;
        await forget(located.event.ordinal);
        return;
      }
      throw changing();
    },
    eraseRead: eraseOnce,
    start: rounds.start,
    stop: rounds.stop,
  };
}

const changesOf = (removed: readonly RemovedDelivery[]): readonly Change[] => removed.flatMap(({ changes }) => changes);

const changing = (): Problem =>
  new Problem("CONFLICT", "The deliveries of this event changed meanwhile, too often. Send the request again.");
