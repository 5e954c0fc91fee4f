/** Accepts published events: stores them with their deliveries in one commit, and answers only after that. */
import { createCautiousNow } from "../lib/cautious-now.ts";
import type { Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { MAX_BATCH_EVENTS, type RelayEvent } from "../model/event.ts";
import { ordinals, ordinalTime } from "../model/ids.ts";
import { Problem } from "../model/problem.ts";
import type { Metrics } from "../ports/plugin.ts";
import type { Accept, Accepted, AcceptRequest } from "../ports/source.ts";
import type { Change, Storage } from "../ports/storage.ts";
import type { createBalance } from "./balance.ts";
import { createAdmission, type AdmissionDeps, type Turn } from "./admission.ts";
import { FANOUT_BOUNDS, isWide, nothingWritten, writeEvent, type Writing } from "./write-event.ts";
import type { FanoutBounds, NewEvent } from "./write-event.ts";
import { holds, isOutdated, subscriptionsIn } from "./fanout.ts";
import { createFilteredFanouts, type FanoutOf } from "./filtered-fanouts.ts";
import type { Narrowed } from "./apply-filters.ts";
import { createPlacing, ORDER_ROUNDS } from "./ordered.ts";
import { createSeenEventTypes } from "./seen-event-types.ts";
import { createPrepare } from "./prepare.ts";
import { answerOf, ownsAll, parseEvents, type EventCheck, type ParsedEvent } from "./parse-events.ts";
import {
  claimId,
  NOTHING_STORED,
  readStored,
  recallRequest,
  rememberRequest,
  repeatedIdsWithin,
  type StoredAnswer,
} from "./idempotency.ts";
import { createSnapshots, type Fanout } from "../records/snapshots.ts";
import { commitOnce, type PrepareEvent } from "../records/commit-once.ts";
import { isSequenceConflict } from "../records/sequences.ts";

interface PublisherDeps extends AdmissionDeps {
  readonly storage: AdmissionDeps["storage"] & Pick<Storage, "commit" | "getItem" | "getMany">;
  /**
   * What may be published, read anew for each event: the names of the catalogue (`undefined`: every well-formed one), and what
   * judges data by the schemas of the config (`undefined`: no type has one).
   */
  readonly catalogue?: { readonly names: ReadonlySet<string> | undefined; readonly checks?: EventCheck | undefined };
  readonly metrics: Metrics;
  /** Delays the answers to a key that is ahead of its deliveries. @default none is delayed */
  readonly balance?: Pick<ReturnType<typeof createBalance>, "added" | "delayMs">;
  /** @default FANOUT_BOUNDS */
  readonly fanout?: FanoutBounds;
  /** Is offered the due lines of events that were committed just now. */
  readonly handOver: { offer(events: readonly RelayEvent[], dues: readonly Due[]): void };
  /** Called for each event right after its commit, before its deliveries are handed over. */
  readonly accepted?: (event: RelayEvent) => void;
  /** Called right after the commit for each event that filters left out somewhere, or that failed from the start. */
  readonly filtered?: (keyId: string, subscriptionIds: readonly string[]) => void;
  readonly failed?: PublisherDeps["filtered"];
}

/** Changes that are stored in the same commit as the events that were accepted; none for what is only a repeat. */
export type AcceptedWith = (fresh: readonly Accepted[]) => readonly Change[];

export interface Publisher {
  /** As sources know it, and with changes of the relay's own (an audit line). */
  readonly accept: (request: AcceptRequest, also?: AcceptedWith) => ReturnType<Accept>;
  /** @throws Problem PROVIDER_BACKPRESSURE or STORAGE_FULL while publishing is refused */
  admit(): number;
  readonly prepare: PrepareEvent;
}

type Drafts = readonly ParsedEvent[];
const keyOf = ({ keyId }: ParsedEvent): string => keyId;

/** How often a commit that lost against others is repeated. Each time at least one of the others has won for good. */
const ROUNDS = 8;

export function createPublisher(deps: PublisherDeps): Publisher {
  const { storage, subscriptionCache, clock, metrics, catalogue } = deps;
  /** Judges what is remembered for a day: a wall clock that is set forwards must not make a repeat a new event. */
  const cautiousNow = createCautiousNow(clock);
  const mint = ordinals(() => clock.now());
  const fanouts = createFilteredFanouts();
  const snapshots = createSnapshots(storage);
  const bounds = deps.fanout ?? FANOUT_BOUNDS;
  const names = createSeenEventTypes(storage);
  const admission = createAdmission(deps);
  const { turns } = admission;
  const placing = createPlacing(storage, clock);

  const accept: Publisher["accept"] = async (request, also) => {
    const began = clock.monotonic();
    try {
      const passing = admission.pass(request, began);
      if (passing !== undefined) await passing;
      const { publications } = request;
      if (publications.length > MAX_BATCH_EVENTS) {
        throw new Problem("PAYLOAD_TOO_LARGE", `At most ${MAX_BATCH_EVENTS} events may be published at once.`);
      }
      const drafts = await parseEvents(publications, catalogue?.names, catalogue?.checks);
      if (drafts.length === 0) throw new Problem("VALIDATION_FAILED", "There is no event in the body.");
      ownsAll(drafts, request.keys);
      const turn = await admission.enter(request, drafts.map(keyOf));
      let accepted: readonly Accepted[];
      try {
        accepted = await store(request, drafts, turn, also);
      } finally {
        turn.endOrder?.();
        turns.leave(turn);
      }
      const tookMs = clock.monotonic() - began;
      metrics.observe("accept_seconds", tookMs / 1_000);
      for (const one of accepted) report(deps, request, one, Math.round(tookMs * 10) / 10);
      const delayMs = deps.balance?.delayMs(accepted) ?? 0;
      if (delayMs > 0) await clock.sleep(clock.now() + delayMs);
      return accepted;
    } catch (error) {
      throw admission.refused(error);
    }
  };

  /** Stores all or nothing. A refused commit leads to a read of what others stored first under the same ids. */
  async function store(
    request: AcceptRequest,
    drafts: Drafts,
    turn: Turn,
    also: AcceptedWith | undefined,
  ): Promise<readonly Accepted[]> {
    const { idempotency } = request;
    const twice = repeatedIdsWithin(drafts);
    let stored = NOTHING_STORED;
    let was: string | null = null;
    let lost = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const writing = nothingWritten();
      const byKey = await subscriptionsIn(subscriptionCache, drafts);
      const fanoutOf = await fanouts.of(drafts, byKey);
      const accepted = write(writing, drafts, fanoutOf, twice, stored, request.traceparent);
      if (also !== undefined) writing.changes.push(...also(accepted.filter(({ duplicate }) => !duplicate)));
      const named = writing.events.every(names.known);
      if (!named) writing.changes.push(...(await names.missing(writing.events, clock.now())));
      const remembered = idempotency && rememberRequest(idempotency, accepted, clock.now(), was);
      if (remembered !== undefined) writing.changes.unshift(...remembered);
      if (writing.snapshots.size > 0) writing.changes.push(...(await snapshots.ready(writing.snapshots)));
      if (writing.ordered !== undefined) {
        turn.endOrder ??= await placing.turn(drafts.map(keyOf), (wait) => turns.aside(turn, wait));
        await placing.place(writing, writing.ordered);
      }
      // Where the subscriptions changed meanwhile, they are read again, but once: where they change all the time, a change
      // after that read counts as one after this event. From here to the storage nothing can come between.
      if (round === 0 && !holds(subscriptionCache, byKey)) continue;
      turns.began(turn);
      try {
        announce(writing, writing.changes.length === 0 || (await commitOnce(storage, writing.changes)));
        return accepted;
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
        if ((isSequenceConflict(error) || isOutdated(error)) && ++lost < ORDER_ROUNDS) round--;
        snapshots.forget(writing.snapshots);
      }
      if (idempotency !== undefined) {
        const before = await recallRequest(storage, idempotency, cautiousNow());
        if ("answer" in before) return before.answer;
        was = before.was;
      }
      stored = await readStored(storage, drafts, cautiousNow());
    }
    throw new Problem("STORAGE_UNAVAILABLE", "Its ids change all the time. Publish again.", { retryAfter: 1 });
  }

  function write(
    writing: Writing,
    drafts: Drafts,
    fanoutOf: FanoutOf,
    twice: ReadonlyMap<ParsedEvent, ParsedEvent>,
    stored: StoredAnswer,
    traceparent: string | undefined,
  ): readonly Accepted[] {
    const answers = twice.size > 0 ? new Map<ParsedEvent, Accepted>() : undefined;
    const accepted: Accepted[] = [];
    for (const draft of drafts) {
      const first = twice.get(draft);
      const known = stored.events.get(draft);
      let answer: Accepted;
      if (first !== undefined) {
        answer = { ...(answers?.get(first) as Accepted), duplicate: true };
      } else if (known !== undefined) {
        answer = answerOf(known, true);
      } else {
        const ordinal = mint();
        // One time for both: this is how the relay recognises a delivery without an attempt.
        const acceptedAt = ordinalTime(ordinal);
        const { keyId, type, data, createdAt = acceptedAt, id = `evt_${ordinal}` } = draft;
        writing.changes.push(...claimId(draft, ordinal, stored.free));
        const made = { id, type, keyId, ordinal, createdAt, acceptedAt, traceparent, data };
        answer = answerOf(add(writing, made, fanoutOf(draft)), false);
      }
      answers?.set(draft, answer);
      accepted.push(answer);
    }
    return accepted;
  }

  function add(writing: Writing, made: NewEvent, to: Fanout | Narrowed): RelayEvent {
    if ("filteredOut" in to) writing.filtered.push({ keyId: made.keyId, subscriptionIds: to.filteredOut });
    const snapshot = isWide(writing, to, bounds) ? snapshots.of(made.keyId, to) : undefined;
    return writeEvent(writing, made, to, snapshot);
  }

  /**
   * Runs after the commit. A crash before it costs nothing: the next sweep finds the due lines. It may announce old
   * ones.
   */
  function announce({ events, dues, waiting, filtered, failed = [] }: Writing, fresh = true): void {
    names.written(events);
    for (const { keyId, subscriptionIds } of filtered) {
      metrics.count("filtered", undefined, subscriptionIds.length);
      deps.filtered?.(keyId, subscriptionIds);
    }
    for (const { keyId, subscriptionIds } of failed) deps.failed?.(keyId, subscriptionIds);
    if (deps.accepted !== undefined) for (const event of events) deps.accepted(event);
    if (!fresh) return;
    deps.balance?.added(dues);
    if (dues.length > 0 || waiting !== undefined) deps.handOver.offer(events, dues);
    admission.added(dues);
    if (waiting !== undefined) admission.added(waiting);
  }

  return {
    accept,
    admit: admission.admit,
    prepare: createPrepare({ subscriptionCache, fanouts, snapshots, names, mint, add, announce }),
  };
}

/** Counts an accepted event, and writes its line in the log. */
function report(
  { metrics, log }: Pick<PublisherDeps, "metrics" | "log">,
  { requestId, source, traceparent }: AcceptRequest,
  { id: eventId, type, keyId, deliveries, duplicate }: Accepted,
  durationMs: number,
): void {
  metrics.count(duplicate ? "duplicates" : "accepted", { source });
  const traceId = traceparent?.slice(3, 35);
  log.info("accepted", { requestId, traceId, source, eventId, type, keyId, deliveries, duplicate, durationMs });
}
