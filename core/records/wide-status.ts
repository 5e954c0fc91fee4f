/**
 * Reads the status of a wide event without reading thousands of deliveries each time.
 *
 * While its line is in the queue, it is pending. After that its deliveries are read in order, up to the first pending
 * one. That position is remembered, because ended deliveries stay ended until a replay, which changes the event's row.
 * Once all have ended, the row says so, and no delivery is read any more.
 */
import { setNewest } from "../lib/bounded-map.ts";
import { type Delivery, eventStatus, type EventStatus } from "../model/delivery.ts";
import { StorageError } from "../model/errors.ts";
import { deliveryCount, type RelayEvent } from "../model/event.ts";
import { DUE, EVENT, FANOUT, type FanoutRow, fanoutQueue } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";
import { pairOf, type DeliveryReader } from "./delivery-view.ts";
import { tryCommit } from "./transaction.ts";
import type { Recipients } from "./recipients.ts";

/** Deliveries in the first read, and in the largest. */
const FIRST_READ = 16;
const LARGEST_READ = 500;
/** Events whose progress is remembered. */
const HELD = 1_000;

interface WideStatus {
  readonly status: EventStatus;
  /** Epoch ms at which the last delivery ended; absent while one is pending. */
  readonly endedAt?: number;
  /** The event's row as it was read. */
  readonly row: string | undefined;
  /** How many deliveries were read. */
  readonly read: number;
}

/** The position of the first pending delivery, and the statuses of those before it. */
interface Progress {
  readonly row: string;
  readonly at: number;
  readonly statuses: ReadonlySet<Delivery["status"]>;
  readonly endedAt: number;
}

/** @throws StorageError */
export type ReadWideStatus = (event: RelayEvent) => Promise<WideStatus>;

export function createWideStatus(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "commit">;
  readonly recipients: Pick<Recipients, "slice">;
  readonly read: DeliveryReader;
}): ReadWideStatus {
  const { storage, recipients, read } = deps;
  const held = new Map<string, Progress>();

  /** Writes that all have ended, unless a replay came meanwhile. If it is not written, the next reader reads again. */
  async function note(event: RelayEvent, row: string, ended: FanoutRow): Promise<boolean> {
    const { keyId, ordinal } = event;
    // A replay may have added a delivery between the read of the event and that of its row.
    const text = await storage.getItem(EVENT.key({ keyId, ordinal }));
    if (text === undefined || deliveryCount(EVENT.orThrow(text)) !== deliveryCount(event)) return false;
    return await tryCommit(storage, [FANOUT.put({ keyId, ordinal }, ended, row)]).catch(
      (error: unknown) => error instanceof StorageError || Promise.reject(error),
    );
  }

  return async (event) => {
    const { keyId, ordinal, acceptedAt } = event;
    const line = DUE.key({ subscriptionId: fanoutQueue(keyId), dueAt: acceptedAt, ordinal });
    const [row, waiting] = await storage.getMany([FANOUT.key({ keyId, ordinal }), line]);
    if (row === undefined || waiting !== undefined) return { status: "pending", row, read: 0 };
    const now = FANOUT.orThrow(row);
    if (now.state === "ended") return { status: now.status, endedAt: now.at, row, read: 0 };
    const name = `${keyId} ${ordinal}`;
    const known = held.get(name);
    const same = known?.row === row ? known : undefined;
    const statuses = new Set(same?.statuses);
    let endedAt = same?.endedAt ?? acceptedAt;
    let at = same?.at ?? 0;
    let count = 0;
    for (let size = FIRST_READ; at < deliveryCount(event); size = Math.min(2 * size, LARGEST_READ)) {
      const deliveries = await read((await recipients.slice(event, at, size)).map(pairOf(event)));
      count += deliveries.length;
      for (const { status, updatedAt } of deliveries) {
        if (status === "pending") {
          setNewest(held, name, { row, at, statuses, endedAt }, HELD);
          return { status, row, read: count };
        }
        statuses.add(status);
        endedAt = Math.max(endedAt, updatedAt);
        at++;
      }
    }
    const status = eventStatus([...statuses]);
    held.delete(name);
    const ended = { snapshot: now.snapshot, state: "ended", status, at: endedAt } as const;
    if (!(await note(event, row, ended))) return { status: "pending", row, read: count };
    return { status, endedAt, row: FANOUT.write(ended), read: count };
  };
}
