/**
 * Keeps deliveries of a subscription from being sent for a while: one map of pauses, asked once before each attempt. The
 * queue claims nothing of a paused subscription; this also stops what was claimed before. Losing a pause loses nothing.
 */
import type { Clock } from "../ports/clock.ts";

/** `failing`: its circuit breaker is open. `retry_after`: its receiver asked for it. `away`: its connection is. */
type Reason = "failing" | "retry_after" | "away";

interface Pause {
  readonly ms: number;
  /** Monotonic, so that a wall clock that is set back lengthens no pause. */
  until: number;
  /** The transport that is away. */
  readonly of: object | undefined;
  /** The delivery (ordinal) that may try after a pause of the circuit breaker; the others wait for its outcome. */
  probe: string | undefined;
}

export type Gates = ReturnType<typeof createGates>;

/** A probe that takes longer than this, ms, no longer makes the others wait. */
const PROBE_MS = 60_000;
/** Most subscriptions with pauses at once; beyond it the oldest is dropped that no breaker keeps. */
const HELD = 10_000;

export function createGates(clock: Pick<Clock, "monotonic">) {
  const paused = new Map<string, Partial<Record<Reason, Pause>>>();

  const leftOf = (pause: Pause | undefined): number =>
    pause === undefined ? 0 : Math.max(0, pause.until - clock.monotonic());

  function makeRoom(): void {
    if (paused.size < HELD) return;
    for (const [id, { failing }] of paused) if (failing === undefined) return void paused.delete(id);
  }

  function end(id: string, reason?: Reason): void {
    const entry = paused.get(id);
    if (entry === undefined) return;
    if (reason !== undefined) delete entry[reason];
    if (reason === undefined || Object.keys(entry).length === 0) paused.delete(id);
  }

  return {
    /** The subscriptions that may be paused: others need not be asked about. */
    paused: paused as ReadonlyMap<string, unknown>,
    /** Returns how long an attempt must wait, ms; `undefined`: not. After a breaker's pause the first is its probe. */
    admit(id: string, ordinal: string): number | undefined {
      const { failing, retry_after, away } = paused.get(id) ?? {};
      const asked = Math.max(leftOf(retry_after), leftOf(away));
      // The breaker takes what it lets through for its probe: it comes after the others.
      if (asked > 0) return asked;
      if (failing === undefined) paused.delete(id);
      if (failing === undefined || failing.probe === ordinal) return undefined;
      // Never longer than a pause: all nodes get this, and this one may die before it can take it back.
      if (leftOf(failing) > 0) return Math.min(leftOf(failing), failing.ms);
      failing.probe = ordinal;
      failing.until = clock.monotonic() + PROBE_MS;
      return undefined;
    },
    /** The delivery is no longer under way on this node. If it was the probe and ended without a result, another may be. */
    left(id: string, ordinal: string): void {
      const failing = paused.get(id)?.failing;
      if (failing === undefined || failing.probe !== ordinal) return;
      failing.probe = undefined;
      failing.until = 0;
    },
    /** Starts a pause of this length; of one reason the latest counts. @param of what is away */
    pause(id: string, reason: Reason, ms: number, of?: object): void {
      let entry = paused.get(id);
      if (entry === undefined) {
        makeRoom();
        paused.set(id, (entry = {}));
      }
      entry[reason] = { ms, until: clock.monotonic() + ms, of, probe: undefined };
    },
    /** Ends the pause of one reason, or all of them. */
    end,
    /** Ends the pauses of what was away. Returns their subscriptions. */
    back(of: object): readonly string[] {
      const ids = [...paused].filter(([, { away }]) => away?.of === of).map(([id]) => id);
      for (const id of ids) end(id, "away");
      return ids;
    },
    /** Lets the next attempt pass a breaker now. */
    probe(id: string): void {
      const failing = paused.get(id)?.failing;
      if (failing !== undefined) failing.until = 0;
    },
    isProbe: (id: string, ordinal: string): boolean => paused.get(id)?.failing?.probe === ordinal,
    /** Returns how long a pause still lasts, ms; 0 without one, and while the probe is under way. */
    leftMs(id: string, reason: Reason): number {
      const pause = paused.get(id)?.[reason];
      return pause?.probe === undefined ? leftOf(pause) : 0;
    },
    /** Returns how many subscriptions are paused now; one whose probe is under way is among them. */
    count: (reason: Reason): number => [...paused.values()].filter((entry) => leftOf(entry[reason]) > 0).length,
  };
}
