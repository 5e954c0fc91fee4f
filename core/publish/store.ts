/** Stores new events with their deliveries: all of a request, or nothing. */
import { createCautiousNow } from "../lib/cautious-now.ts";
import type { Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import { ordinals, ordinalTime } from "../model/ids.ts";
import { OPERATIONAL } from "../model/names.ts";
import { Problem } from "../model/problem.ts";
import { EVENT_ID } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Metrics } from "../ports/plugin.ts";
import type { Accepted, AcceptRequest } from "../ports/source.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { commitOnce, type Prepared, type PrepareEvent } from "../records/commit-once.ts";
import { isSequenceConflict } from "../records/sequences.ts";
import { createSnapshots } from "../records/snapshots.ts";
import type { createAdmission, Turn } from "./admission.ts";
import type { createBalance } from "./balance.ts";
import { Fanouts, holds, isOutdated, subscriptionsIn, type Narrowed, type Subscribers } from "./fanout.ts";
import {
  claimId,
  NOTHING_STORED,
  readStored,
  recallRequest,
  rememberRequest,
  repeatedIdsWithin,
} from "./idempotency.ts";
import { createPlacing, ORDER_ROUNDS } from "./ordered.ts";
import { answerOf, type ParsedEvent } from "./parse-events.ts";
import { createSeenEventTypes } from "./seen-event-types.ts";
import { FANOUT_BOUNDS, isWide, nothingWritten, writeEvent, type Writing } from "./write-event.ts";
import type { FanoutBounds, NewEvent } from "./write-event.ts";

export interface StoreDeps {
  readonly storage: Pick<Storage, "commit" | "getItem" | "getMany" | "range">;
  readonly subscriptionCache: Subscribers;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** @default FANOUT_BOUNDS */
  readonly fanout?: FanoutBounds;
  /** Counts the deliveries of each key. @default nothing is counted */
  readonly balance?: Pick<ReturnType<typeof createBalance>, "added" | "delayMs">;
  /** Is offered the due lines of events that were committed just now. */
  readonly handOver: { offer(events: readonly RelayEvent[], dues: readonly Due[]): void };
  /** Called for each event right after its commit, before its deliveries are handed over. */
  readonly accepted?: (event: RelayEvent) => void;
  /** Called right after the commit for each event that filters left out somewhere, or that failed from the start. */
  readonly filtered?: (keyId: string, subscriptionIds: readonly string[]) => void;
  readonly failed?: StoreDeps["filtered"];
}

/** Changes that are stored in the same commit as the events that were accepted; none for what is only a repeat. */
export type AcceptedWith = (fresh: readonly Accepted[]) => readonly Change[];

type Drafts = readonly ParsedEvent[];
export const keyOf = ({ keyId }: ParsedEvent): string => keyId;

/** How often a commit that lost against others is repeated. Each time at least one of the others has won for good. */
const ROUNDS = 8;

export class EventStore {
  readonly #deps: StoreDeps;
  readonly #admission: Pick<ReturnType<typeof createAdmission>, "added" | "turns">;
  readonly #bounds: FanoutBounds;
  /** Judges what is remembered for a day: a wall clock that is set forwards must not make a repeat a new event. */
  readonly #cautiousNow: () => number;
  readonly #mint: () => string;
  readonly #fanouts = new Fanouts();
  readonly #snapshots: ReturnType<typeof createSnapshots>;
  readonly #names: ReturnType<typeof createSeenEventTypes>;
  readonly #placing: ReturnType<typeof createPlacing>;

  constructor(deps: StoreDeps, admission: Pick<ReturnType<typeof createAdmission>, "added" | "turns">) {
    const { storage, clock } = deps;
    this.#deps = deps;
    this.#admission = admission;
    this.#bounds = deps.fanout ?? FANOUT_BOUNDS;
    this.#cautiousNow = createCautiousNow(clock);
    this.#mint = ordinals(() => clock.now());
    this.#snapshots = createSnapshots(storage);
    this.#names = createSeenEventTypes(storage);
    this.#placing = createPlacing(storage, clock);
  }

  /**
   * Stores all or nothing. A refused commit leads to a read of what others stored first under the same ids.
   * @throws Problem, StorageError
   */
  async store(
    request: AcceptRequest,
    drafts: Drafts,
    turn: Turn,
    also: AcceptedWith | undefined,
  ): Promise<readonly Accepted[]> {
    const { storage, subscriptionCache, clock } = this.#deps;
    const { turns } = this.#admission;
    const names = this.#names;
    const { idempotency } = request;
    const twice = repeatedIdsWithin(drafts);
    let stored = NOTHING_STORED;
    let was: string | null = null;
    let lost = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const writing = nothingWritten();
      const byKey = await subscriptionsIn(subscriptionCache, drafts);
      const fanoutOf = await this.#fanouts.of(drafts, byKey);
      const accepted = this.#write(writing, drafts, { fanoutOf, twice, stored, traceparent: request.traceparent });
      if (also !== undefined) writing.changes.push(...also(accepted.filter(({ duplicate }) => !duplicate)));
      const named = writing.events.every(names.known);
      if (!named) writing.changes.push(...(await names.missing(writing.events, clock.now())));
      const remembered = idempotency && rememberRequest(idempotency, accepted, clock.now(), was);
      if (remembered !== undefined) writing.changes.unshift(...remembered);
      if (writing.snapshots.size > 0) writing.changes.push(...(await this.#snapshots.ready(writing.snapshots)));
      if (writing.ordered !== undefined) {
        turn.endOrder ??= await this.#placing.turn(drafts.map(keyOf), (wait) => turns.aside(turn, wait));
        await this.#placing.place(writing, writing.ordered);
      }
      // Where the subscriptions changed meanwhile, they are read again, but once: where they change all the time, a change
      // after that read counts as one after this event. From here to the storage nothing can come between.
      if (round === 0 && !holds(subscriptionCache, byKey)) continue;
      turns.began(turn);
      try {
        this.#announce(writing, writing.changes.length === 0 || (await commitOnce(storage, writing.changes)));
        return accepted;
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
        if ((isSequenceConflict(error) || isOutdated(error)) && ++lost < ORDER_ROUNDS) round--;
        this.#snapshots.forget(writing.snapshots);
      }
      if (idempotency !== undefined) {
        const before = await recallRequest(storage, idempotency, this.#cautiousNow());
        if ("answer" in before) return before.answer;
        was = before.was;
      }
      stored = await readStored(storage, drafts, this.#cautiousNow());
    }
    throw new Problem("STORAGE_UNAVAILABLE", "Its ids change all the time. Publish again.", { retryAfter: 1 });
  }

  /** Prepares an event of the relay's own (`relay:…`) for a commit of somebody else. */
  async prepare({ keyId, type, data, id }: Parameters<PrepareEvent>[0]): Promise<Prepared | undefined> {
    if (!type.startsWith(OPERATIONAL))
      throw new Error(`${type} is not an operational event: its name must start with ${OPERATIONAL}`);
    const subscriptions = await this.#deps.subscriptionCache.of(keyId);
    if (subscriptions.length === 0) return undefined;
    const event = { keyId, type, data: JSON.stringify(data) };
    const to = (await this.#fanouts.of([event], new Map([[keyId, subscriptions]])))(event);
    if (to.ids.length === 0) return undefined;
    const writing = nothingWritten();
    const ordinal = this.#mint();
    const acceptedAt = ordinalTime(ordinal);
    this.#add(writing, { ...event, id: id ?? `evt_${ordinal}`, ordinal, createdAt: acceptedAt, acceptedAt }, to);
    if (id !== undefined) writing.changes.push(EVENT_ID.put({ keyId, id }, ordinal, null));
    // The caller's commit must not fail because of a snapshot: retention needs two runs to remove an unused one.
    if (writing.snapshots.size > 0) await this.#snapshots.ready(writing.snapshots, true);
    return {
      changes: [...writing.changes, ...(await this.#names.missing([{ keyId, type }], acceptedAt))],
      committed: () => this.#announce(writing),
    };
  }

  #write(
    writing: Writing,
    drafts: Drafts,
    known: {
      readonly fanoutOf: (draft: ParsedEvent) => Narrowed;
      readonly twice: ReturnType<typeof repeatedIdsWithin>;
      readonly stored: typeof NOTHING_STORED;
      readonly traceparent: string | undefined;
    },
  ): readonly Accepted[] {
    const { fanoutOf, twice, stored, traceparent } = known;
    const answers = twice.size > 0 ? new Map<ParsedEvent, Accepted>() : undefined;
    const accepted: Accepted[] = [];
    for (const draft of drafts) {
      const first = twice.get(draft);
      const before = stored.events.get(draft);
      let answer: Accepted;
      if (first !== undefined) {
        answer = { ...(answers?.get(first) as Accepted), duplicate: true };
      } else if (before !== undefined) {
        answer = answerOf(before, true);
      } else {
        const ordinal = this.#mint();
        // One time for both: this is how the relay recognises a delivery without an attempt.
        const acceptedAt = ordinalTime(ordinal);
        const { keyId, type, data, createdAt = acceptedAt, id = `evt_${ordinal}` } = draft;
        writing.changes.push(...claimId(draft, ordinal, stored.free));
        const made = { id, type, keyId, ordinal, createdAt, acceptedAt, traceparent, headers: draft.headers, data };
        answer = answerOf(this.#add(writing, made, fanoutOf(draft)), false);
      }
      answers?.set(draft, answer);
      accepted.push(answer);
    }
    return accepted;
  }

  #add(writing: Writing, made: NewEvent, to: Narrowed): RelayEvent {
    const { keyId } = made;
    if (to.filteredOut !== undefined) writing.filtered.push({ keyId, subscriptionIds: to.filteredOut });
    const snapshot = isWide(writing, to, this.#bounds) ? this.#snapshots.of(keyId, to) : undefined;
    return writeEvent(writing, made, to, snapshot);
  }

  /** Runs after the commit. A crash before it costs nothing: the sweep finds due lines. May announce old ones. */
  #announce({ events, dues, waiting, filtered, failed = [] }: Writing, fresh = true): void {
    const deps = this.#deps;
    this.#names.written(events);
    for (const { keyId, subscriptionIds } of filtered) {
      deps.metrics.count("filtered", undefined, subscriptionIds.length);
      deps.filtered?.(keyId, subscriptionIds);
    }
    for (const { keyId, subscriptionIds } of failed) deps.failed?.(keyId, subscriptionIds);
    if (deps.accepted !== undefined) for (const event of events) deps.accepted(event);
    if (!fresh) return;
    deps.balance?.added(dues);
    if (dues.length > 0 || waiting !== undefined) deps.handOver.offer(events, dues);
    this.#admission.added(dues);
    if (waiting !== undefined) this.#admission.added(waiting);
  }
}
