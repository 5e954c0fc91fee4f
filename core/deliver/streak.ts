/** What a node knows of the failures in a row of one subscription. */

export interface Streak {
  failures: number;
  /** Time-outs in a row. Those of attempts that were under way together count as one, because they show the same moment. */
  timeouts: number;
  /** Monotonic time of the last time-out that counted. */
  timedOutAt: number;
  /** Epoch ms: what is stored, and what people read. */
  since: number;
  /** Monotonic time of the first failure: a wall clock that is set makes nobody's failures days long. */
  began: number;
  restMs: number;
  /** Monotonic, so that a wall clock that is set back lengthens no pause. */
  restEnds: number;
  /** The delivery (ordinal) that may try after a pause; the others wait for its outcome. */
  probe: string | undefined;
  stored: boolean;
  /**
   * It was read at the start and may be out of date: the node that wrote it may have seen a success since, or may have
   * died.
   */
  unconfirmed: boolean;
  /** Its subscription is being disabled. */
  ending: boolean;
  /** Whether something else than an operational event failed: only then its states are reported. */
  reported: boolean;
}

/** @param ageMs how long it has lasted, when it is read at the start */
export const newStreak = (since: number, now: number, ageMs = 0): Streak => ({
  failures: 0,
  timeouts: 0,
  timedOutAt: Number.NEGATIVE_INFINITY,
  since,
  began: now - Math.max(0, ageMs),
  restMs: 0,
  restEnds: 0,
  probe: undefined,
  stored: false,
  unconfirmed: false,
  ending: false,
  reported: false,
});
