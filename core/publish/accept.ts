/** Accepts published events: stores them with their deliveries in one commit, and answers only after that. */
import { MAX_BATCH_EVENTS } from "../model/event.ts";
import { Problem } from "../model/problem.ts";
import type { Accept, Accepted, AcceptRequest } from "../ports/source.ts";
import type { PrepareEvent } from "../records/commit-once.ts";
import { createAdmission, type AdmissionDeps } from "./admission.ts";
import { ownsAll, parseEvents, type EventCheck } from "./parse-events.ts";
import { EventStore, keyOf, type AcceptedWith, type StoreDeps } from "./store.ts";

type PublisherDeps = AdmissionDeps &
  StoreDeps & {
    /**
     * The event types that may be published, read for each event: the names of the catalogue (`undefined`: every well-formed
     * one), and the judge of data by the schemas of the config (`undefined`: no type has one).
     */
    readonly catalogue?: { readonly names: ReadonlySet<string> | undefined; readonly checks?: EventCheck | undefined };
  };

export interface Publisher {
  /** As sources know it, and with changes of the relay's own (an audit line). */
  readonly accept: (request: AcceptRequest, also?: AcceptedWith) => ReturnType<Accept>;
  /** @throws Problem PROVIDER_BACKPRESSURE or STORAGE_FULL while publishing is refused */
  admit(): number;
  readonly refusing: ReturnType<typeof createAdmission>["refusing"];
  readonly prepare: PrepareEvent;
}

export function createPublisher(deps: PublisherDeps): Publisher {
  const { clock, metrics, catalogue, balance } = deps;
  const admission = createAdmission(deps);
  const events = new EventStore(deps, admission);

  const accept: Publisher["accept"] = async (request, also) => {
    const began = clock.monotonic();
    try {
      const passing = admission.pass(request, began);
      if (passing !== undefined) await passing;
      const { publications } = request;
      if (publications.length > MAX_BATCH_EVENTS)
        throw new Problem("PAYLOAD_TOO_LARGE", `At most ${MAX_BATCH_EVENTS} events may be published at once.`);
      const drafts = await parseEvents(publications, catalogue?.names, catalogue?.checks);
      if (drafts.length === 0) throw new Problem("VALIDATION_FAILED", "There is no event in the body.");
      ownsAll(drafts, request.keys);
      const turn = await admission.enter(request, drafts.map(keyOf));
      let accepted: readonly Accepted[];
      try {
        accepted = await events.store(request, drafts, turn, also);
      } finally {
        turn.endOrder?.();
        admission.turns.leave(turn);
      }
      const tookMs = clock.monotonic() - began;
      metrics.observe("accept_seconds", tookMs / 1_000);
      for (const one of accepted) report(deps, request, one, Math.round(tookMs * 10) / 10);
      const delayMs = balance?.delayMs(accepted) ?? 0;
      if (delayMs > 0) await clock.sleep(clock.now() + delayMs);
      return accepted;
    } catch (error) {
      throw admission.refused(error);
    }
  };

  return { accept, admit: admission.admit, refusing: admission.refusing, prepare: (draft) => events.prepare(draft) };
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
