/** Composes who hears of what happens: the relay's own parts, then the observers of plug-ins in their order. */
import type { LiveFeed } from "../../history/live-feed.ts";
import type { RelayEvent } from "../../model/event.ts";
import type { AttemptObserver, Observer } from "../../ports/observer.ts";
import type { StatsCollector } from "../../stats/collect.ts";

interface Hearers {
  readonly liveFeed: Pick<LiveFeed, "hears" | "accepted" | "attempted">;
  readonly statsCollector: Pick<StatsCollector, "accepted" | "attempted" | "refused">;
  /** Observers of plug-ins. */
  readonly observers: readonly Observer[];
}

/** Returns what is called for each event right after its commit. */
export function acceptedBy({ liveFeed, statsCollector, observers }: Hearers): (event: RelayEvent) => void {
  const others = observers.filter((one) => one.accepted !== undefined);
  return (event) => {
    if (liveFeed.hears(event.keyId)) liveFeed.accepted(event);
    statsCollector.accepted(event);
    for (const one of others) one.accepted?.(event);
  };
}

/** Returns what is called for each attempt after its outcome is stored. */
export function attemptedBy({ liveFeed, statsCollector, observers }: Hearers): AttemptObserver {
  const others = observers.filter((one) => one.attempted !== undefined);
  return (sub, ...attempt) => {
    if (liveFeed.hears(sub.keyId)) liveFeed.attempted(sub, ...attempt);
    statsCollector.attempted(sub, ...attempt);
    for (const one of others) one.attempted?.(sub, ...attempt);
  };
}

/** Returns what is called for each request that is answered 429. */
export function refusedBy({ statsCollector, observers }: Omit<Hearers, "liveFeed">): Required<Observer>["refused"] {
  return (...refusal) => {
    statsCollector.refused(...refusal);
    for (const one of observers) one.refused?.(...refusal);
  };
}

/** `inner` in the wrappers of all observers; the first observer's is the outermost. */
export function wrapped<Inner>(
  observers: readonly Observer[],
  wrapperOf: (observer: Observer) => ((next: Inner) => Inner) | undefined,
  inner: Inner,
): Inner {
  return observers.reduceRight((next, observer) => wrapperOf(observer)?.call(observer, next) ?? next, inner);
}
