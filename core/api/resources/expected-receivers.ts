/** What a replay by hand asks of the receivers: whether they have asked for rest, and that they be tried at once. */
import { Problem } from "../../model/problem.ts";

export interface Receivers {
  /** How long the receiver of a subscription has asked for rest yet, ms. */
  readonly pausedMs?: ((subscriptionId: string) => number) | undefined;
  /** The breaker lets the next attempt through: a replay by hand is its probe. */
  readonly probe?: ((subscriptionId: string) => Promise<void>) | undefined;
}

const leftMs = ({ pausedMs }: Receivers, id: string): number => pausedMs?.(id) ?? 0;

/** @throws Problem PROVIDER_BACKPRESSURE when all of them rest; by the one that is back first */
export function refuseResting(receivers: Receivers, subscriptionIds: readonly string[]): void {
  const left = subscriptionIds.map((id) => leftMs(receivers, id));
  if (left.length === 0 || left.some((ms) => ms <= 0)) return;
  const retryAfter = Math.max(1, Math.ceil(Math.min(...left) / 1_000));
  throw new Problem("PROVIDER_BACKPRESSURE", "The receiver has asked for rest; come back later.", { retryAfter });
}

/** Those that rest by their own wish are left alone. */
export async function probe(receivers: Receivers, subscriptionIds: readonly string[]): Promise<void> {
  for (const id of subscriptionIds) if (leftMs(receivers, id) <= 0) await receivers.probe?.(id);
}
