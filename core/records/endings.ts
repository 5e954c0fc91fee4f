/**
 * Ends what waits of a subscription that was disabled or deleted. It reads as ended from the commit on that said so, which
 * also writes a mark; its rows follow here, in pages. The mark stays until none is left, so that a crash leaves nothing
 * behind, and that a delivery whose attempt was under way ends too when it is to wait for another one.
 */
import type { Delivery } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import {
  duesOf,
  ENDINGS,
  endingKey,
  eventKey,
  fanoutQueue,
  parseDue,
  parseSubscriptionKey,
  parseWaiting,
  subscriptionKey,
  waitingsOf,
} from "../model/keys.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { readEvent, readTexts, unlessUnreadable } from "./damage.ts";
import { freshDelivery } from "./delivery-records.ts";
import { endLine, endWaiting, type EndedWaiting } from "./end-pending.ts";
import { asEnded, endedBy, outcomeOf } from "./ended-by.ts";
import { everyEntry } from "./every-entry.ts";
import { holdsUp, skipAllHeld } from "./held.ts";
import { isNamed, loadRecord } from "./load-record.ts";
import type { Recipients } from "./recipients.ts";
import { isSequenceConflict } from "./sequences.ts";
import { isOutline, readSubscription } from "./subscription-record.ts";

/** Rows read at once. Each may take the reading of an event. */
const PAGE = 50;

/** Returns the mark, for the commit that gives the subscription its new generation. */
export const endingMark = ({ keyId, id, generation }: Pick<Subscription, "keyId" | "id" | "generation">): Change => ({
  op: "put",
  key: endingKey(keyId, id),
  value: String(generation),
});

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

export function createEndings(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;
  readonly recipients: Pick<Recipients, "has">;
  /** Is told of deliveries that have failed. */
  readonly statsCollector: { failed(keyId: string, subscriptionIds: readonly string[]): void };
  readonly log: Log;
  readonly metrics: Pick<Metrics, "count">;
}): Endings {
  const { storage, recipients, statsCollector, log, metrics } = deps;
  const running = new Map<string, Promise<void>>();
  let round: Promise<void> | undefined;
  let stopped = false;

  /** Reads the delivery of a row. `undefined`: who claims it finds out what is damaged. */
  async function deliveryOf(keyId: string, { key, value }: Entry): Promise<Delivery | undefined> {
    const line = isWaiting({ key }) ? parseWaiting(key, value) : parseDue(key, value);
    const { subscriptionId, ordinal } = line;
    const known = await loadRecord(line, storage);
    if (known !== undefined) return known;
    const { event, damaged } = readEvent(keyId, ordinal, await storage.getItem(eventKey(keyId, ordinal)));
    return !damaged && (await isNamed(recipients, event, subscriptionId)) ? freshDelivery(line, event.id) : undefined;
  }

  /** Ends a line whatever enters its sequence meanwhile. @returns false when a node has leased or changed it */
  async function endDue(row: Entry, over: Delivery): Promise<boolean> {
    for (;;) {
      try {
        return await endLine(storage, parseDue(row.key, row.value), over);
      } catch (error) {
        if (isSequenceConflict(error)) continue;
        if (error instanceof ConflictError) return false;
        throw error;
      }
    }
  }

  /** Ends those that wait for their turn, a sequence in one commit. */
  async function endTurns(keyId: string, subscriptionId: string, ends: readonly EndedWaiting[]): Promise<void> {
    for (const [sequence, some] of Map.groupBy(ends, ({ over }) => over.order?.sequence ?? 0))
      await endWaiting(storage, { keyId, subscriptionId, order: { sequence, place: 0 } }, some);
  }

  /** @returns how many of a page had ended, and how many of those have a row that says otherwise */
  async function endPage(keyId: string, id: string, sub: Subscription | undefined, page: readonly Entry[]) {
    const found = page.filter((row) => endedBy(sub, generationOf(row)) !== undefined);
    const read = found.map(async (row) => {
      const delivery = await unlessUnreadable(deliveryOf(keyId, row));
      const over = delivery && asEnded(delivery, sub);
      return over === undefined ? [] : [{ over, row }];
    });
    let ends = (await Promise.all(read)).flat();
    if (found[0] !== undefined && isWaiting(found[0])) await endTurns(keyId, id, ends);
    else {
      const done = await Promise.all(ends.map(({ row, over }) => endDue(row, over)));
      ends = ends.filter((_, i) => done[i]);
    }
    for (const { over } of ends) metrics.count("deliveries", { outcome: outcomeOf(over) });
    const failed = ends.filter(({ over }) => over.status === "failed").map(() => id);
    if (failed.length > 0) statsCollector.failed(keyId, failed);
    return { found: found.length, left: found.length - ends.length };
  }

  async function* pages(prefix: string): AsyncGenerator<readonly Entry[]> {
    for (let after: string | undefined; !stopped;) {
      const page: readonly Entry[] = await storage.range(prefix, { after, limit: PAGE });
      yield page;
      if (page.length < PAGE) return;
      after = page.at(-1)?.key;
    }
  }

  /** @returns as `endPage` */
  async function pass(keyId: string, id: string, sub: Subscription | undefined) {
    let [found, left] = [0, 0];
    // Those that wait first: a head that ends would give each of them its turn.
    for (const prefix of [waitingsOf(id), duesOf(id)]) {
      if (prefix === duesOf(id) && !holdsUp(sub)) await skipAllHeld(storage, { keyId, id });
      for await (const page of pages(prefix)) {
        const ended = await endPage(keyId, id, sub, page);
        found += ended.found;
        left += ended.left;
      }
    }
    // A wide event may still write deliveries of an earlier generation.
    const wide = (await storage.range(duesOf(fanoutQueue(keyId)), { limit: 1 })).length;
    return { found: found + wide, left: left + wide };
  }

  async function run(keyId: string, id: string): Promise<void> {
    const [key, own] = [endingKey(keyId, id), subscriptionKey(keyId, id)];
    while (!stopped) {
      const [mark, text] = await readTexts(storage, [key, own]);
      const sub = text === undefined ? undefined : readSubscription(text, own);
      // Of a damaged one nobody knows what it has ended.
      if (mark === undefined || (sub !== undefined && isOutline(sub))) return;
      try {
        const { found, left } = await pass(keyId, id, sub);
        if (found > 0 && found === left) return;
        if (found === 0 && !stopped) await storage.commit([{ op: "delete", key, if: mark }]);
      } catch (error) {
        // Others entered or left the order meanwhile, or it was disabled again.
        if (!(error instanceof ConflictError)) throw error;
      }
    }
  }

  async function finish(keyId: string, id: string): Promise<void> {
    // What runs may have begun before the commit that is meant.
    const next = (running.get(id) ?? Promise.resolve()).catch(() => undefined).then(() => run(keyId, id));
    running.set(id, next);
    try {
      await next;
    } finally {
      if (running.get(id) === next) running.delete(id);
    }
  }

  async function all(): Promise<void> {
    for await (const { key } of everyEntry(storage, ENDINGS)) {
      const { keyId, id } = parseSubscriptionKey(key);
      await finish(keyId, id);
    }
  }

  return {
    finish,
    begin(keyId, id) {
      finish(keyId, id).catch((error: unknown) =>
        log.warn("what waits of a subscription ends later", { keyId, subscriptionId: id, error: String(error) }),
      );
    },
    resume() {
      round ??= all()
        .catch((error: unknown) => log.warn("what waits of subscriptions ends later", { error: String(error) }))
        .finally(() => (round = undefined));
    },
    async stop() {
      stopped = true;
      await Promise.allSettled([...running.values(), round]);
    },
  };
}

const isWaiting = ({ key }: Pick<Entry, "key">): boolean => key.startsWith("waiting:");

/** Returns the generation in the text of a row; NaN when that is damaged. */
const generationOf = ({ key, value }: Entry): number => Number(value.split(" ")[isWaiting({ key }) ? 2 : 1]);
