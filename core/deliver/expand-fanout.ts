/**
 * Writes the deliveries of wide events, a page at a time.
 *
 * A line in the due index, in a queue of its own for each key, stands for the rest, so the ordinary queue does the work: it finds the line again after a crash, gives its lease to one node at a time, and serves other queues between
 * two pages. A page and the line's next state are one commit under that lease, so no page is written twice.
 */
import type { Due } from "../model/delivery.ts";
import { ConflictError, DamagedRecordError, LeaseLostError } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import { DELIVERY, DUE, FANOUT, type FanoutMember, fanoutQueueKey } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Change, Lease, Storage } from "../ports/storage.ts";
import { isDamage, readOrThrow } from "../records/damage.ts";
import { dropDue, putDue } from "../records/delivery-records.ts";
import { addDue, addFailed, fanoutLine } from "../records/new-delivery.ts";
import type { EventCache } from "./event-cache.ts";
import type { Deliver } from "./run.ts";
import { persist } from "../records/persist.ts";
import type { Recipients } from "../records/recipients.ts";
import { storedCount } from "../records/snapshots.ts";

/** How long a fan-out waits when its snapshot cannot be read, ms. */
const DAMAGED_REST_MS = 60_000;

type Event = Pick<RelayEvent, "id" | "keyId" | "ordinal" | "acceptedAt" | "wide">;

/** Pages that one node writes at once. */
const PAGES_AT_ONCE = 4;

interface ExpandDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "queue">;
  readonly eventCache: EventCache;
  readonly recipients: Recipients;
  /** Most deliveries in one commit. */
  readonly page: number;
  /** Called with the subscriptions of each page once it is stored. */
  readonly written?: (keyId: string, subscriptionIds: readonly string[]) => void;
  /** The same with those among them whose deliveries have failed from the start. */
  readonly failed?: (keyId: string, subscriptionIds: readonly string[]) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "count">;
}

/** Changes of one commit, and what follows from them. */
interface Page {
  readonly changes: readonly Change[];
  readonly dues: readonly Due[];
  readonly members: readonly FanoutMember[];
  /** The line as it is afterwards; absent when all is written. */
  readonly next?: Due | undefined;
  readonly damaged: boolean;
}

/**
 * Like `Deliver`, for a line of a fan-out queue: writes one page and gives the line back.
 * @throws a fault of ours: the line is unchanged, and the lease still held
 */
export function createExpand(deps: ExpandDeps): Deliver {
  const waiting: (() => void)[] = [];
  let running = 0;

  /** Lets only a few pages be written at a time, so that they do not delay other commits. */
  async function enter(): Promise<void> {
    if (running < PAGES_AT_ONCE) running++;
    else await new Promise<void>((next) => void waiting.push(next));
  }

  function leave(): void {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }

  return async (lease, slot, signal) => {
    await enter();
    try {
      signal.throwIfAborted();
      await expand(lease, signal, deps).catch(async (error: unknown) => {
        if (!(error instanceof ConflictError)) throw error;
        await catchUp(lease, signal, deps);
      });
    } catch (error) {
      if (error instanceof LeaseLostError) return;
      if (!isDamage(error)) throw error;
      // Trying again soon changes nothing: an operator has to look at it.
      const { subscriptionId, ordinal } = lease;
      deps.log.error("a fan-out cannot go on", { subscriptionId, ordinal, error: error.message });
      await deps.storage.queue.release(lease, deps.clock.now() + DAMAGED_REST_MS);
    } finally {
      leave();
      slot.give();
    }
  };
}

async function expand(lease: Lease, signal: AbortSignal, deps: ExpandDeps): Promise<void> {
  const { queue } = deps.storage;
  const { changes, dues, members, next, damaged } = await pageOf(lease, deps);
  await persist(() => queue.settle(lease, changes, { next }), signal, deps);
  if (dues.length > 0) queue.add(dues);
  if (damaged) reportLine(lease, deps);
  if (members.length === 0) return;
  const keyId = fanoutQueueKey(lease.subscriptionId);
  const ids = (some: readonly FanoutMember[]): readonly string[] => some.map(({ id }) => id);
  deps.written?.(keyId, ids(members));
  deps.failed?.(keyId, ids(members.filter((one) => one.disabled && one.ordered !== true)));
}

/** Returns the next page of a line; an empty one, with which the line ends, when its event is not in storage. */
async function pageOf(lease: Lease, deps: ExpandDeps): Promise<Page> {
  const event = await load(lease, deps);
  const wide = event?.wide;
  const changes = [dropDue(lease)];
  const dues: Due[] = [];
  if (event === undefined || wide === undefined) {
    const { subscriptionId, ordinal } = lease;
    deps.log.error("a fan-out was dropped: its wide event is not in storage", { subscriptionId, ordinal });
    return { changes, dues, members: [], damaged: false };
  }
  const all = await deps.recipients.members(event.keyId, wide);
  // A line with a changed digit can still be read: what is written and what is left must add up to the snapshot's length.
  const damaged = lease.damaged !== undefined || lease.attempts + lease.generation !== all.length;
  const from = damaged ? await afterLastWritten(event, all, deps) : lease.attempts;
  const members = all.slice(from, from + deps.page);
  for (const member of members) {
    if (member.ordered === true) continue;
    if (member.disabled) addFailed(changes, event, member);
    else addDue(changes, dues, event, member);
  }
  const done = from + members.length;
  const next = done < all.length ? fanoutLine(event, { ...wide, count: all.length }, done) : undefined;
  if (next !== undefined) changes.push(putDue(next));
  return { changes, dues, members, next, damaged };
}

/** Loads the event as far as its deliveries need it; of a damaged one, what its row and line say. */
async function load(lease: Lease, { storage, eventCache }: ExpandDeps): Promise<Event | undefined> {
  const { subscriptionId, ordinal, dueAt: acceptedAt, generation, attempts } = lease;
  // The text of the line may be damaged.
  const keyId = fanoutQueueKey(subscriptionId);
  try {
    return (await eventCache.load(keyId, ordinal)).event;
  } catch (error) {
    if (!(error instanceof DamagedRecordError)) throw error;
    const row = await readOrThrow(storage, FANOUT, { keyId, ordinal });
    if (row === undefined) return undefined;
    const { snapshot } = row;
    // Of a damaged line the numbers are not known: the snapshot itself says how many there are.
    const count = lease.damaged === undefined ? attempts + generation : await storedCount(storage, keyId, snapshot);
    return { id: `evt_${ordinal}`, keyId, ordinal, acceptedAt, wide: { snapshot, count } };
  }
}

/**
 * Finds the position of a line that cannot be read: pages are written in order, each as a whole, so it is after the last
 * one that is written. An ordered delivery is written with the event, and one written earlier may be deleted by now.
 */
async function afterLastWritten(
  { ordinal, acceptedAt: dueAt }: Event,
  all: readonly FanoutMember[],
  { storage, page }: ExpandDeps,
): Promise<number> {
  for (let end = all.length; end > 0; end -= page) {
    const start = Math.max(0, end - page);
    const some = all.slice(start, end);
    const own = some.map(({ id }) => ({ subscriptionId: id, dueAt, ordinal }));
    const rows = await storage.getMany(own.flatMap((one) => [DELIVERY.key(one), DUE.key(one)]));
    const last = some.findLastIndex(
      ({ ordered }, i) => ordered !== true && (rows[2 * i] !== undefined || rows[2 * i + 1] !== undefined),
    );
    if (last >= 0) return start + last + 1;
  }
  return 0;
}

/** Counts and logs a damaged line. The commit before it has replaced or deleted that line, so it is reported once. */
function reportLine(lease: Lease, { metrics, log }: ExpandDeps): void {
  const kind = "due";
  metrics.count("records_damaged", { kind });
  log.error("a stored record is damaged", {
    keyId: fanoutQueueKey(lease.subscriptionId),
    ordinal: lease.ordinal,
    kind,
    key: DUE.key(lease),
    fault: lease.damaged === undefined ? "misplaced" : "unreadable",
    detail: "the fan-out went on after the last delivery that was written",
  });
}

/** Gives the queue the line as it is: it is not as it was claimed, so a commit with an unknown result had succeeded. */
async function catchUp(lease: Lease, signal: AbortSignal, deps: ExpandDeps): Promise<void> {
  const key = DUE.key(lease);
  const text = await deps.storage.getItem(key);
  const changes: readonly Change[] =
    text === undefined
      ? [{ op: "check", key, if: null }]
      : [
          { op: "delete", key, if: text },
          { op: "put", key, value: text },
        ];
  const next = text === undefined ? undefined : DUE.orThrow(text, key);
  await persist(() => deps.storage.queue.settle(lease, changes, { next }), signal, deps);
}
