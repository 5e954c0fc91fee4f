/** Builds the two arguments with which every function begins: see `clock-sql.ts`. */
import type { Clock } from "../../../core/ports/clock.ts";

/** Epoch ms in place of the server's own clock; null: PostgreSQL decides by its clock, which all nodes share. For tests. */
export type Now = () => number | null;

export interface TimeArgument {
  readonly now: () => readonly [number | null, number | null];
  /** Notes that a sign of life was sent at that monotonic time, and has been answered. */
  noted(sentAt: number): void;
  /** Returns how long ago that was, ms. */
  since(): number;
}

export function timeArgument(clock: Pick<Clock, "monotonic">, now: Now): TimeArgument {
  let notedAt = Number.NEGATIVE_INFINITY;
  const since = (): number => Math.max(0, Math.ceil(clock.monotonic() - notedAt));
  return {
    now: () => [now(), notedAt < 0 ? null : since()],
    noted(sentAt) {
      notedAt = Math.max(sentAt, notedAt);
    },
    since,
  };
}
