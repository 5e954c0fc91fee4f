/**
 * Ends what waits of a subscription that was disabled or deleted. It reads as ended from the commit on that said so, which
 * also writes a mark; its rows follow here, in pages. The mark stays until none is left, so that a crash leaves nothing
 * behind, and that a delivery whose attempt was under way ends too when it is to wait for another one.
 */
import type { Delivery, Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { DUE, ENDING, EVENT, fanoutQueue, SUBSCRIPTION, WAITING } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { readEvent, readTexts, unlessUnreadable } from "./damage.ts";
import { freshDelivery } from "./delivery-records.ts";
import { asEnded, countEnd, endedBy } from "./ended-by.ts";
import { everyEntry, everyPage } from "./every-entry.ts";
import { holdsUp, skipAllHeld } from "./held.ts";
import { isNamed, loadRecord } from "./load-record.ts";
import type { Recipients } from "./recipients.ts";
import { endLine, endWaiting, isSequenceConflict, lineOf } from "./sequences.ts";
import { isOutline, readSubscription } from "./subscription-record.ts";

/** Rows read at once. Each may take the reading of an event. */
const PAGE = 50;

/** Returns the mark, for the commit that gives the subscription its new generation. */
export const endingMark = ({ keyId, id, generation }: Pick<Subscription, "keyId" | "id" | "generation">): Change =>
  ENDING.put({ keyId, subscriptionId: id }, String(generation));

export interface Endings {
  /** Ends what waits of a subscription that has a mark, but for what a node has leased. @throws StorageError; Problem CONFLICT */
  finish(keyId: string, id: string): Promise<void>;
  /** Does so in the background. */
  begin(keyId: string, id: string): void;
  /** Does so in the background for every subscription that has a mark, one after another. */
  resume(): void;
  /** Resolves when nothing is written any more. */
  stop(): Promise<void>;
}

interface EndingDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;
  readonly recipients: Pick<Recipients, "has">;
  /** Counts deliveries that have failed. */
  readonly statsCollector: { failed(keyId: string, subscriptionIds: readonly string[]): void };
  readonly log: Log;
  readonly metrics: Pick<Metrics, "count">;
}

/** A row by which a delivery waits, and the delivery as it ends. */
interface End {
  readonly row: Entry;
  readonly line: Due;
  readonly over: Delivery;
}

export function createEndings(deps: EndingDeps): Endings {
  const { storage, log } = deps;
  const running = new Map<string, Promise<void>>();
  let round: Promise<void> | undefined;
  let stopped = false;

  /** @returns how many rows had ended, and how many of those no longer say otherwise */
  async function pass(keyId: string, id: string, sub: Subscription | undefined) {
    let [found, ended] = [0, 0];
    // Those that wait first: a head that ends would give each of them its turn.
    for (const [kind, end] of [[WAITING, endTurns] as const, [DUE, endDues] as const]) {
      if (end === endDues && !holdsUp(sub)) await skipAllHeld(storage, { keyId, id });
      for await (const page of everyPage(storage, kind.under({ subscriptionId: id }), { limit: PAGE })) {
        if (stopped) break;
        const [rows, ends] = await endsAmong(page, sub, deps);
        found += rows;
        ended += await end(ends, deps);
      }
    }
    // A wide event may still write deliveries of an earlier generation.
    const wide = await storage.range(DUE.under({ subscriptionId: fanoutQueue(keyId) }), { limit: 1 });
    return { found: found + wide.length, ended };
  }

  async function run(keyId: string, id: string): Promise<void> {
    const [key, own] = [ENDING.key({ keyId, subscriptionId: id }), SUBSCRIPTION.key({ keyId, id })];
    while (!stopped) {
      const [mark, text] = await readTexts(storage, [key, own]);
      const sub = text === undefined ? undefined : readSubscription(text, own);
      // Of a damaged one nobody knows what it has ended.
      if (mark === undefined || (sub !== undefined && isOutline(sub))) return;
      try {
        const { found, ended } = await pass(keyId, id, sub);
        if (found > 0 && ended === 0) return;
        if (found === 0 && !stopped) await storage.commit([{ op: "delete", key, if: mark }]);
      } catch (error) {
        // Others entered or left the order meanwhile, or it was disabled again.
        if (!(error instanceof ConflictError)) throw error;
      }
    }
  }

  function finish(keyId: string, id: string): Promise<void> {
    // The one that runs may have begun before the commit that is meant.
    const next = (running.get(id) ?? Promise.resolve())
      .catch(() => undefined)
      .then(() => run(keyId, id))
      .finally(() => running.get(id) === next && running.delete(id));
    running.set(id, next);
    return next;
  }

  const later = (error: unknown): void => log.warn("what waits of a subscription ends later", { error: String(error) });

  async function all(): Promise<void> {
    for await (const { key } of everyEntry(storage, ENDING.start)) {
      const { keyId, subscriptionId: id } = ENDING.id(key);
      await finish(keyId, id).catch(later);
    }
  }

  return {
    finish,
    begin: (keyId, id) => void finish(keyId, id).catch(later),
    resume: () =>
      void (round ??= all()
        .catch(later)
        .finally(() => (round = undefined))),
    async stop() {
      stopped = true;
      await Promise.allSettled([...running.values(), round]);
    },
  };
}

/** Finds how many rows of a page the subscription has ended, and reads those of their deliveries that can be read. */
async function endsAmong(page: readonly Entry[], sub: Subscription | undefined, deps: EndingDeps) {
  const found = page.flatMap((row) => {
    const line = lineOf(row);
    return line !== undefined && endedBy(sub, line.generation) !== undefined ? [{ row, line }] : [];
  });
  const read = found.map(async (one): Promise<readonly End[]> => {
    const delivery = await unlessUnreadable(deliveryOf(one.line, deps));
    const over = delivery && asEnded(delivery, sub);
    return over === undefined ? [] : [{ ...one, over }];
  });
  return [found.length, (await Promise.all(read)).flat()] as const;
}

/** Reads the delivery of a line. `undefined`: who claims it finds out what is damaged. */
async function deliveryOf(line: Due, { storage, recipients }: EndingDeps): Promise<Delivery | undefined> {
  const { keyId, ordinal, subscriptionId } = line;
  const known = await loadRecord(line, storage);
  if (known !== undefined) return known;
  const { event, damaged } = readEvent(keyId, ordinal, await storage.getItem(EVENT.key({ keyId, ordinal })));
  return !damaged && (await isNamed(recipients, event, subscriptionId)) ? freshDelivery(line, event.id) : undefined;
}

/** Ends those that wait for their turn, a sequence in one commit. @returns how many ended, as does `endDues` */
async function endTurns(ends: readonly End[], deps: EndingDeps): Promise<number> {
  for (const some of Map.groupBy(ends, ({ over }) => over.order?.sequence).values()) {
    await endWaiting(deps.storage, some);
    for (const { over } of some) countEnd(over, deps.metrics, deps.statsCollector.failed);
  }
  return ends.length;
}

/** Ends lines whatever enters their sequences meanwhile, but for those that a node has leased or changed. */
async function endDues(ends: readonly End[], deps: EndingDeps): Promise<number> {
  const done = ends.map(async ({ line, over }): Promise<boolean> => {
    for (;;) {
      try {
        const ended = await endLine(deps.storage, line, over);
        if (ended) countEnd(over, deps.metrics, deps.statsCollector.failed);
        return ended;
      } catch (error) {
        if (isSequenceConflict(error)) continue;
        if (error instanceof ConflictError) return false;
        throw error;
      }
    }
  });
  return (await Promise.all(done)).filter(Boolean).length;
}
