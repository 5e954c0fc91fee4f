/**
 * Erases one event: its record and its deliveries, whatever their state. The first commit deletes the record, so that
 * nothing of it is read or sent any more, with the audit line that says so. The deliveries of a wide event follow in
 * pages; a row in an index brings every node back to them after a crash.
 */
import { ConflictError, untilCommitted } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import { DAMAGED } from "../model/kind.ts";
import { noSuch, Problem } from "../model/problem.ts";
import { DUE, ERASING, EVENT, FANOUT, fanoutQueue, REPLAYED, SUBSCRIPTION } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change } from "../ports/storage.ts";
import { keepErasedId, tellErased } from "../records/erased-id.ts";
import { everyEntry, everyPage } from "../records/every-entry.ts";
import { locateEvent, type Located } from "../records/find-event.ts";
import type { EndTurns } from "./end-turns.ts";
import { addNext, removalOf, removeDelivery, type RemovedDelivery, type Removing } from "./remove-delivery.ts";
import { finishWide } from "./remove-wide.ts";
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
   * @throws ConflictError, with nothing erased of it but deliveries, when it changed meanwhile
   */
  eraseRead(located: Located): Promise<void>;
  /** Continues, every 30 s, what an erasure of a wide event has left. */
  start(): void;
  stop(): Promise<void>;
}

/** Deliveries of a damaged event that one commit deletes. */
const PAGE = 250;

export function createEventErasure(deps: {
  readonly storage: Removing;
  readonly endTurns: EndTurns;
  /** Drops the event from every node's cache. */
  readonly forget: (ordinal: string) => Promise<void>;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}): EventErasure {
  const { storage, endTurns, forget, clock, log } = deps;
  const rounds = createRounds({ work: finishAll, clock, log });

  async function eraseRead({ event, text, damaged }: Located, also: readonly Change[] = []): Promise<void> {
    const { keyId, ordinal, id } = event;
    const row = damaged || event.wide !== undefined ? await storage.getItem(FANOUT.key({ keyId, ordinal })) : undefined;
    if (damaged || FANOUT.read(row) === DAMAGED) await eraseUnlisted(storage, event);
    const asWide = await removing(storage, event);
    const listed = asWide.length > 0 ? [] : event.subscriptionIds;
    const removed = await Promise.all(listed.map((sub) => removeDelivery(storage, event, sub)));
    await storage.commit([
      removalOf(EVENT.key({ keyId, ordinal }), text),
      REPLAYED.delete({ keyId, ordinal }),
      ...keepErasedId(keyId, id, ordinal, clock.now()),
      ...asWide,
      ...changesOf(removed),
      ...also,
    ]);
    addNext(storage, removed);
    if (asWide.length > 0) rounds.wake();
  }

  async function finishAll(signal: AbortSignal): Promise<void> {
    for await (const { key } of everyEntry(storage, ERASING.start)) {
      if (signal.aborted) return;
      // One that cannot go on now does not stop the others.
      await finish(storage, key, signal).catch((error: unknown) =>
        log.warn("an erasure waits", { key, error: String(error) }),
      );
    }
  }

  return {
    async erase(keyId, eventId, also) {
      let ended = false;
      const erasing = untilCommitted(async () => {
        const located = await locateEvent(storage, keyId, eventId);
        if (located === undefined) throw noSuch("event");
        if (!ended && !located.damaged) await endTurns(located.event);
        ended = true;
        await eraseRead(located, also);
        return located.event.ordinal;
      });
      await forget(await erasing.catch(changing));
    },
    eraseRead,
    start: rounds.start,
    stop: rounds.stop,
  };
}

/**
 * Deletes the deliveries of a damaged event: it cannot say which it has, so each subscription of its key is asked.
 * @throws Problem CONFLICT when they change all the time
 */
async function eraseUnlisted(storage: Removing, event: RelayEvent): Promise<void> {
  for await (const page of everyPage(storage, SUBSCRIPTION.under({ keyId: event.keyId }), { limit: PAGE })) {
    const ids = page.map(({ key }) => SUBSCRIPTION.id(key).id);
    await untilCommitted(async () => {
      const removed = await Promise.all(ids.map((id) => removeDelivery(storage, event, id)));
      await storage.commit(changesOf(removed));
      addNext(storage, removed);
    }).catch(changing);
  }
}

/** Returns what turns a wide event into one that is being removed; nothing for other events. */
async function removing(
  storage: Removing,
  { keyId, ordinal, acceptedAt, subscriptionIds }: RelayEvent,
): Promise<readonly Change[]> {
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

/** Deletes the deliveries that the erasure of a wide event has left, and at last the row that brings back to them. */
async function finish(storage: Removing, key: string, signal: AbortSignal): Promise<void> {
  const { keyId, ordinal } = ERASING.id(key);
  const fanout = FANOUT.key({ keyId, ordinal });
  const row = await storage.getItem(fanout);
  if (row !== undefined) await finishWide(storage, keyId, ordinal, row, signal);
  if ((await storage.getItem(fanout)) === undefined) await storage.commit([{ op: "delete", key }]);
}

const changesOf = (removed: readonly RemovedDelivery[]): readonly Change[] => removed.flatMap(({ changes }) => changes);

function changing(error: unknown): never {
  if (!(error instanceof ConflictError)) throw error;
  throw new Problem("CONFLICT", "The deliveries of this event changed meanwhile, too often. Send the request again.");
}
