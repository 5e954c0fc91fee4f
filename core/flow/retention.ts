/** Retention: removes what has ended and is old. Pending is never removed, failed only by an explicit setting. */
import Bottleneck from "bottleneck";
import { eventStatus, type DeliveryStatus, type EventStatus } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { decodeEvent, type RelayEvent } from "../model/event.ts";
import { eventOrdinal, ordinalTime } from "../model/ids.ts";
import {
  attemptsOf,
  deliveryKey,
  dueKey,
  eventIdKey,
  eventKey,
  eventsOf,
  failedKey,
  parseApiKeyKey,
  parseDue,
} from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { unlessDamaged, unlessDamagedLater } from "./damage.ts";
import { createReading } from "./reading.ts";
import { createRecipients, type Recipients } from "./recipients.ts";
import { decodeDelivery } from "./records.ts";
import { createWideRemoval, type WideRemoval } from "./remove-wide.ts";
import { endedBy } from "./standing.ts";
import { createWideStatus } from "./wide-status.ts";
import { everyEntry, type Directory } from "./directory.ts";

export interface RetentionOptions {
  /** Age at which delivered, cancelled and unmatched events go, ms. `undefined`: never. */
  readonly deliveredAfterMs?: number;
  readonly failedAfterMs?: number;
}

export interface Retention {
  /** Goes over all events once, gently. @returns how many were removed */
  run(options: RetentionOptions, signal: AbortSignal): Promise<number>;
}

/** Ids must be recognised as duplicates for at least a day, so nothing goes sooner. */
const LEAST_AGE_MS = 86_400_000;
/** Removal is housekeeping: few commits at once, and a breath between them, so that the path does not feel it. */
const PACE = { maxConcurrent: 4, minTime: 3 };

export function createRetention(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit">;
  readonly directory: Directory;
  readonly recipients?: Recipients;
  readonly clock: Clock;
}): Retention {
  const { storage, directory, clock, recipients = createRecipients(storage) } = deps;
  const wideStatus = createWideStatus({ storage, recipients, read: createReading(deps) });

  type Accepted = Pick<RelayEvent, "keyId" | "ordinal" | "acceptedAt">;

  interface Part {
    readonly subscriptionId: string;
    readonly status: DeliveryStatus;
    readonly changes: readonly Change[];
    readonly endedAt: number;
  }

  async function part(event: Accepted, subscriptionId: string): Promise<Part> {
    const sub = await directory.get(event.keyId, subscriptionId);
    const key = deliveryKey(subscriptionId, event.ordinal);
    const text = await storage.getItem(key);
    const known = text === undefined ? undefined : decodeDelivery(text, key);
    const line = { subscriptionId, ordinal: event.ordinal, dueAt: known?.nextAttemptAt ?? event.acceptedAt };
    const due = known === undefined || known.status === "pending" ? await storage.getItem(dueKey(line)) : undefined;
    const generation = known?.generation ?? (due === undefined ? 0 : parseDue(dueKey(line), due).generation);
    const status =
      known !== undefined && known.status !== "pending"
        ? known.status
        : (endedBy(sub, generation)?.status ?? "pending");
    const earlier =
      known !== undefined && known.cycle > 0
        ? await storage.range(attemptsOf(subscriptionId, event.ordinal), { limit: 1_000 })
        : [];
    const changes: Change[] = earlier.map(({ key: row }) => ({ op: "delete", key: row }));
    // Only as it was read: a replay that comes meanwhile wins.
    changes.push(text === undefined ? { op: "check", key, if: null } : { op: "delete", key, if: text });
    if (due !== undefined) changes.push({ op: "delete", key: dueKey(line), if: due });
    changes.push({ op: "delete", key: failedKey(subscriptionId, event.ordinal) });
    return { subscriptionId, status, changes, endedAt: known?.updatedAt ?? event.acceptedAt };
  }

  const isOver = (options: RetentionOptions, acceptedAt: number) => (status: EventStatus, endedAt: number) => {
    const keepMs = status === "failed" ? options.failedAfterMs : options.deliveredAfterMs;
    const at = Math.max(acceptedAt, endedAt);
    return status !== "pending" && keepMs !== undefined && at <= clock.now() - Math.max(keepMs, LEAST_AGE_MS);
  };

  /** What is damaged stays: nobody can say of it that it has ended, or what else belongs to it. */
  async function remove(text: string, key: string, options: RetentionOptions, wide: WideRemoval): Promise<boolean> {
    const event = unlessDamaged(() => decodeEvent(text, key));
    if (event?.wide !== undefined) return await wide.remove(event, text, isOver(options, event.acceptedAt));
    const parts = event && (await unlessDamagedLater(Promise.all(event.subscriptionIds.map((id) => part(event, id)))));
    if (event === undefined || parts === undefined) return false;
    const status = eventStatus(parts.map((one) => one.status));
    if (!isOver(options, event.acceptedAt)(status, Math.max(0, ...parts.map((one) => one.endedAt)))) return false;
    const changes: Change[] = [{ op: "delete", key: eventKey(event.keyId, event.ordinal), if: text }];
    if (eventOrdinal(event.id) !== event.ordinal)
      changes.push({ op: "delete", key: eventIdKey(event.keyId, event.id) });
    try {
      await storage.commit([...changes, ...parts.flatMap((one) => one.changes)]);
      return true;
    } catch (error) {
      if (error instanceof ConflictError) return false;
      throw error;
    }
  }

  return {
    async run(options, signal) {
      const pace = new Bottleneck(PACE);
      const youngest = Math.max(
        LEAST_AGE_MS,
        Math.min(options.deliveredAfterMs ?? Infinity, options.failedAfterMs ?? Infinity),
      );
      if (youngest === Infinity) return 0;
      const oldEnough = (ordinal: string): boolean => ordinalTime(ordinal) <= clock.now() - youngest;
      const wide = createWideRemoval({
        storage,
        wideStatus,
        removal: async (event, id) => (await part(event, id)).changes,
        pace: (work) => work(),
      });
      let removed = 0;
      for await (const { key: keyRow } of everyEntry(storage, "key:")) {
        let batch: Promise<boolean>[] = [];
        const flush = async (): Promise<void> => {
          removed += (await Promise.all(batch)).filter(Boolean).length;
          batch = [];
        };
        for await (const { key, value } of everyEntry(storage, eventsOf(parseApiKeyKey(keyRow)))) {
          if (signal.aborted || !oldEnough(key.slice(key.lastIndexOf(":") + 1))) break;
          batch.push(pace.schedule(() => remove(value, key, options, wide)));
          if (batch.length === 100) await flush();
        }
        await flush();
        await wide.tidy(parseApiKeyKey(keyRow), signal);
      }
      return removed;
    },
  };
}
