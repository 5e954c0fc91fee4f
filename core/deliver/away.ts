/**
 * Pauses the subscriptions of a connection that is away (`Reply` of kind `unavailable`), without using up their
 * attempts, and ends the pauses when it is back. Losing what it remembers loses nothing: each pause ends by itself.
 */
import type { Subscription } from "../model/subscription.ts";
import type { TransportChoice } from "../model/transport-choice.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Queue } from "../ports/storage.ts";
import type { Transport } from "../ports/transport.ts";
import type { Gates } from "./gates.ts";

/** The first pause. Later ones last as long as the connection has been away, up to the longest. */
const FIRST_MS = 1_000;
const LONGEST_MS = 10_000;
/** How often a connection that is away is asked whether it is back. */
const ASK_MS = 500;
/** Pauses that are ended at once: a queue on another machine answers each after a round trip. */
const AT_ONCE = 100;

interface Absence {
  readonly transport: Transport;
  /** Monotonic. */
  readonly since: number;
  /** Monotonic time at which the last pause ends. */
  endsAt: number;
  /** The transport itself has said that it is not ready: only then its word that it is back ends pauses. */
  said: boolean;
}

interface AwayDeps {
  readonly transportOf: TransportChoice<Transport>;
  readonly gates: Pick<Gates, "pause" | "back">;
  readonly queue: Pick<Queue, "pause">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

export class Away {
  readonly #deps: AwayDeps;
  readonly #absences = new Map<Transport, Absence>();
  readonly #ending = new AbortController();
  #watching: Promise<void> | undefined;

  constructor(deps: AwayDeps) {
    this.#deps = deps;
  }

  /** Notes that the connection behind the subscription's URL is away. Returns for how long to pause it, ms. */
  note({ id, url }: Pick<Subscription, "id" | "url">, detail: string): number {
    const { transportOf, gates, clock, metrics } = this.#deps;
    const transport = transportOf(url);
    if (typeof transport === "string") return FIRST_MS;
    const absence = this.#absences.get(transport) ?? this.#begin(transport, detail);
    const now = clock.monotonic();
    if (transport.readiness?.() !== undefined) absence.said = true;
    const ms = Math.min(Math.max(now - absence.since, FIRST_MS), LONGEST_MS);
    absence.endsAt = now + ms;
    gates.pause(id, "away", ms, transport);
    metrics.count("attempts_put_off", { transport: labelOf(transport) });
    return ms;
  }

  /** Stops watching for connections that come back. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#watching;
  }

  #begin(transport: Transport, error: string): Absence {
    const { clock, log, metrics } = this.#deps;
    const label = { transport: labelOf(transport) };
    const now = clock.monotonic();
    const absence: Absence = { transport, since: now, endsAt: now, said: false };
    this.#absences.set(transport, absence);
    metrics.gauge("connection_away", 1, label);
    log.warn("a connection is away: its subscriptions are paused", { ...label, error });
    this.#watching ??= this.#watch();
    return absence;
  }

  /** Runs while a connection is away. It is over in the step that sees none: one that is away from then on starts another. */
  async #watch(): Promise<void> {
    const { clock } = this.#deps;
    while (this.#absences.size > 0) {
      await clock.sleep(clock.now() + ASK_MS, this.#ending.signal).catch(() => undefined);
      if (this.#ending.signal.aborted) return;
      await Promise.all([...this.#absences.values()].map((absence) => this.#ask(absence)));
    }
    this.#watching = undefined;
  }

  async #ask(absence: Absence): Promise<void> {
    const { gates, clock, log, metrics } = this.#deps;
    const { transport, since } = absence;
    if (transport.readiness?.() !== undefined) {
      absence.said = true;
      return;
    }
    // Nothing of it was refused since the last pause ended: either nothing waits for it, or it took what was sent.
    const over = clock.monotonic() > absence.endsAt + ASK_MS;
    if (!absence.said && !over) return;
    this.#absences.delete(transport);
    const ids = gates.back(transport);
    const label = { transport: labelOf(transport) };
    metrics.gauge("connection_away", 0, label);
    const durationMs = Math.round(clock.monotonic() - since);
    log.info("a connection is back", { ...label, durationMs, count: ids.length });
    for (let at = 0; at < ids.length && !this.#ending.signal.aborted; at += AT_ONCE)
      await this.#endPauses(ids.slice(at, at + AT_ONCE));
  }

  /** Never rejects: a pause that is not ended here ends by itself. */
  async #endPauses(ids: readonly string[]): Promise<void> {
    const { queue, log } = this.#deps;
    const ended = await Promise.allSettled(ids.map((id) => queue.pause(id, 0)));
    const failed = ended.filter((one) => one.status === "rejected");
    if (failed.length > 0)
      log.warn("pauses were not ended", { count: failed.length, error: String(failed[0]?.reason) });
  }
}

const labelOf = ({ schemes, name }: Transport): string => `${schemes[0] ?? ""}${name === undefined ? "" : `:${name}`}`;
