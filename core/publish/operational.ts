/** Makes operational events (`relay:…`): for the key that one is about, and for the relay's operator. */
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import { EVENT_ID } from "../model/schema.ts";
import { OPERATIONAL, OPERATOR_KEY } from "../model/names.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { commitOnce } from "../records/commit-once.ts";
import { retryOnConflict } from "../records/transaction.ts";
import type { Fanout, createSnapshots } from "../records/snapshots.ts";
import type { Narrowed } from "./apply-filters.ts";
import type { Subscribers } from "./fanout.ts";
import type { FilteredFanouts } from "./filtered-fanouts.ts";
import type { SeenEventTypes } from "./seen-event-types.ts";
import { nothingWritten, type NewEvent, type Writing } from "./write-event.ts";

export interface Operational {
  readonly changes: readonly Change[];
  /** Call it when the changes are committed. */
  committed(): void;
}

/** One operational event on one key. */
interface OperationalDraft {
  readonly keyId: string;
  readonly type: string;
  readonly data: unknown;
  /** Its own id. Without it the relay gives one. With it the commit fails where the key has an event of that id. */
  readonly id?: string;
}

export interface OperationalEvents {
  /** Like `operational`, for the subscriptions of that key alone. */
  one(draft: OperationalDraft): Promise<Operational | undefined>;
  /**
   * Prepares an operational event for a commit of the caller's own: one for the subscriptions of the key, and one for
   * those of the operator, whose data names the key. `undefined` when no subscription wants it: then it is not stored.
   * Skips back-pressure and catalogue.
   */
  operational(keyId: string, type: string, data: object): Promise<Operational | undefined>;
  /** Prepares and commits one. @throws StorageError */
  acceptOperational(keyId: string, type: string, data: object): Promise<void>;
}

/** Whose subscriptions are offered what concerns a key; absent: what concerns the whole relay. */
export const listenersOf = (keyId: string | undefined): readonly string[] =>
  keyId === undefined || keyId === OPERATOR_KEY ? [OPERATOR_KEY] : [keyId, OPERATOR_KEY];

/** What one of them reads: the operator is told which key it is about. */
export const dataFor = (listener: string, keyId: string | undefined, data: object): object =>
  listener === OPERATOR_KEY && keyId !== undefined && keyId !== OPERATOR_KEY ? { keyId, ...data } : data;

export const together = (parts: readonly Operational[]): Operational | undefined =>
  parts.length < 2
    ? parts[0]
    : {
        changes: parts.flatMap(({ changes }) => changes),
        committed: () => parts.forEach((part) => part.committed()),
      };

export function createOperational(deps: {
  readonly storage: Pick<Storage, "commit">;
  readonly subscriptionCache: Subscribers;
  readonly fanouts: FilteredFanouts;
  readonly snapshots: Pick<ReturnType<typeof createSnapshots>, "ready">;
  readonly names: Pick<SeenEventTypes, "missing">;
  readonly mint: () => string;
  readonly add: (writing: Writing, made: NewEvent, to: Fanout | Narrowed) => RelayEvent;
  readonly announce: (writing: Writing) => void;
}): OperationalEvents {
  const { storage, subscriptionCache, fanouts, snapshots, names, mint, add, announce } = deps;

  async function one({ keyId, type, data, id }: OperationalDraft): Promise<Operational | undefined> {
    if (!type.startsWith(OPERATIONAL))
      throw new Error(`${type} is not an operational event: its name must start with ${OPERATIONAL}`);
    const subscriptions = await subscriptionCache.of(keyId);
    if (subscriptions.length === 0) return undefined;
    const event = { keyId, type, data: JSON.stringify(data) };
    const to = (await fanouts.of([event], new Map([[keyId, subscriptions]])))(event);
    if (to.ids.length === 0) return undefined;
    const writing = nothingWritten();
    const ordinal = mint();
    const acceptedAt = ordinalTime(ordinal);
    add(writing, { ...event, id: id ?? `evt_${ordinal}`, ordinal, createdAt: acceptedAt, acceptedAt }, to);
    if (id !== undefined) writing.changes.push(EVENT_ID.put({ keyId, id }, ordinal, null));
    // The caller's commit must not fail because of a snapshot: retention needs two runs to remove an unused one.
    if (writing.snapshots.size > 0) await snapshots.ready(writing.snapshots, true);
    return {
      changes: [...writing.changes, ...(await names.missing([{ keyId, type }], acceptedAt))],
      committed: () => announce(writing),
    };
  }

  async function operational(keyId: string, type: string, data: object): Promise<Operational | undefined> {
    const made = await Promise.all(
      listenersOf(keyId).map((listener) => one({ keyId: listener, type, data: dataFor(listener, keyId, data) })),
    );
    return together(made.filter((part) => part !== undefined));
  }

  return {
    one,
    operational,
    async acceptOperational(keyId, type, data) {
      // Its node may not have heard of a change to subscriptions yet.
      await retryOnConflict(async () => {
        const event = await operational(keyId, type, data);
        if (event !== undefined && (await commitOnce(storage, event.changes))) event.committed();
      });
    },
  };
}
