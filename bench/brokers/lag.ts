/** Measures the lag of a source at a steady rate: from the moment at which an event is sent upstream to its first attempt. */
import { round } from "../throughput/bench-run.ts";
import { nowMs, publication } from "../throughput/event.ts";
import { percentile } from "../throughput/process.ts";
import type { RunningRelay } from "../throughput/relay.ts";
import { type Figures, pass, type World } from "../throughput/rounds.ts";
import type { Upstream } from "./upstreams.ts";

/** In ms. */
export interface Lag {
  readonly p50: number;
  readonly p99: number;
}

interface Pace {
  /** Events a second. */
  readonly rate: number;
  readonly seconds: number;
}

/** The lag is steady when a measurement takes more than this share of the one before. */
const STEADY = 0.9;
const MOST_AGAIN = 6;

/**
 * A server that has not met this load yet has to compile and to allocate for it, as Kafka's does for most of a minute: it is
 * measured again for as long as that makes it faster.
 * @param from `undefined`: events come over HTTP
 */
export async function steadyLag(
  world: World,
  running: RunningRelay,
  from: Upstream | undefined,
  pace: Pace,
): Promise<Lag> {
  let least = await lagOf(world, running, from, pace);
  for (let again = 0; again < MOST_AGAIN; again++) {
    const now = await lagOf(world, running, from, pace);
    if (now.p50 > least.p50 * STEADY) return now.p50 < least.p50 ? now : least;
    least = now;
  }
  return least;
}

/** Publishes at a rate that waits for nothing, and reads how old events are when they are received. */
async function lagOf(world: World, running: RunningRelay, from: Upstream | undefined, pace: Pace): Promise<Lag> {
  const { receiver } = world;
  let fromSent: readonly number[];
  if (from === undefined) ({ fromSent } = await pass(world, running, pace.seconds, { rate: pace.rate }));
  else {
    await receiver.ask({ kind: "reset" });
    const sent = await pushSteadily(from, pace);
    await receiver.ask({ kind: "await", count: sent });
    const { good, bad, repeated, ...figures } = await receiver.ask<Figures>({ kind: "read" });
    if (bad > 0 || repeated > 0 || good !== sent)
      throw new Error(`${from.name}: of ${sent}, ${good} good, ${bad} bad, ${repeated} repeated`);
    ({ fromSent } = figures);
  }
  return { p50: round(percentile(fromSent, 50), 1), p99: round(percentile(fromSent, 99), 1) };
}

async function pushSteadily(upstream: Upstream, { rate, seconds }: Pace): Promise<number> {
  const from = nowMs();
  const pushes: Promise<unknown>[] = [];
  while (nowMs() < from + seconds * 1_000) {
    const due = Math.floor(((nowMs() - from) * rate) / 1_000);
    while (pushes.length < due) pushes.push(upstream.push(publication()));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(pushes);
  return pushes.length;
}
