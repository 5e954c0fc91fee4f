/** Prepares an event of the relay's own (`relay:…`) for a commit of somebody else. */
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import { OPERATIONAL } from "../model/names.ts";
import { EVENT_ID } from "../model/schema.ts";
import type { PrepareEvent } from "../records/commit-once.ts";
import type { Fanout, createSnapshots } from "../records/snapshots.ts";
import type { Narrowed } from "./apply-filters.ts";
import type { Subscribers } from "./fanout.ts";
import type { FilteredFanouts } from "./filtered-fanouts.ts";
import type { SeenEventTypes } from "./seen-event-types.ts";
import { nothingWritten, type NewEvent, type Writing } from "./write-event.ts";

export function createPrepare(deps: {
  readonly subscriptionCache: Subscribers;
  readonly fanouts: FilteredFanouts;
  readonly snapshots: Pick<ReturnType<typeof createSnapshots>, "ready">;
  readonly names: Pick<SeenEventTypes, "missing">;
  readonly mint: () => string;
  readonly add: (writing: Writing, made: NewEvent, to: Fanout | Narrowed) => RelayEvent;
  readonly announce: (writing: Writing) => void;
}): PrepareEvent {
  const { subscriptionCache, fanouts, snapshots, names, mint, add, announce } = deps;

  return async ({ keyId, type, data, id }) => {
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
  };
}
