/** Builds the time argument of every script: see `clock-lua.ts`. */
import type { Clock } from "../../../core/ports/clock.ts";

/** Empty: Redis decides by its own clock, which all nodes share. Tests pass theirs (`time-argument.ts`). */
export type Now = () => number | "" | { toString(): string };

export interface TimeArgument {
  /** The first argument of a script. Its text is made when it is sent: until then it may wait for others. */
  readonly now: () => { toString(): string };
  /** Notes that a script which writes `:clock` was sent at that monotonic time, and has answered. */
  noted(sentAt: number): void;
}

export function timeArgument(clock: Pick<Clock, "monotonic">, now: Now): TimeArgument {
  let notedAt: number | undefined;
  const sinceNoted = (): number | "" =>
    notedAt === undefined ? "" : Math.max(0, Math.ceil(clock.monotonic() - notedAt));
  return {
    now() {
      const at = now();
      return { toString: () => `${String(at)} ${sinceNoted()}` };
    },
    noted(sentAt) {
      notedAt = Math.max(sentAt, notedAt ?? sentAt);
    },
  };
}
