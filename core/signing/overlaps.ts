/** Measures a rotation's overlap by monotonic time, whatever the wall clock says. */
import { setNewest } from "../lib/bounded-map.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";

/** Version of a secret → monotonic time at which it stops to sign, ms. */
export type Ends = ReadonlyMap<number, number>;

interface Moment {
  readonly wall: number;
  readonly monotonic: number;
}

/** @param held of how many subscriptions a rotation is remembered */
export function createOverlaps(clock: Pick<Clock, "now" | "monotonic">, held: number) {
  const rotations = new Map<string, Moment>();
  const thisMoment = (): Moment => ({ wall: clock.now(), monotonic: clock.monotonic() });

  return {
    /** Notes that a secret of this subscription was rotated a moment ago. */
    rotated: (subscriptionId: string): void => setNewest(rotations, subscriptionId, thisMoment(), held),
    /**
     * Returns when each secret that has an end stops at the latest; `undefined` when none has one.
     * @param before what was returned for the record before: an end that is known is not put off
     */
    endsOf({ id, secrets }: Pick<Subscription, "id" | "secrets">, before: Ends | undefined): Ends | undefined {
      const ends = new Map<number, number>();
      for (const [index, { version, expiresAt }] of secrets.entries()) {
        const rotatedAt = secrets[index - 1]?.createdAt;
        if (expiresAt === undefined || rotatedAt === undefined) continue;
        // A rotation that was noted before this one was made is an older one.
        const noted = rotations.get(id);
        const since = noted !== undefined && noted.wall >= rotatedAt ? noted : thisMoment();
        const left = Math.min(expiresAt - since.wall, expiresAt - rotatedAt);
        ends.set(version, Math.min(since.monotonic + left, before?.get(version) ?? Infinity));
      }
      return ends.size === 0 ? undefined : ends;
    },
  };
}
