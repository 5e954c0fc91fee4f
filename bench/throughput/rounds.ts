// One turn of a relay, one run of the raw loop, and both beside each other.
import { type Form, nowMs } from "./event.ts";
import type { FromReceiver, LoopReply, LoopRequest, PublishReply, PublishRequest } from "./messages.ts";
import { cpuMicroseconds, type Peer, start } from "./process.ts";
import type { RelayUnderTest, RunningRelay } from "./relay.ts";

export type Figures = Extract<FromReceiver, { kind: "figures" }>;

export interface World {
  readonly receiver: Peer;
  readonly publisher: Peer;
  readonly relay: RelayUnderTest;
  readonly url: string;
  readonly ca: string;
  readonly secret: string;
}

export interface Raw {
  readonly perSecond: number;
  /** Of its process, µs a request. */
  readonly cpu: number;
  /** With a rate: from when a request was due until its answer, ms. */
  readonly latencies: readonly number[];
}

/** By then the raw loop's rate no longer rises. */
const LOOP_WARM_SECONDS = 3;
/** An event that has not arrived by then counts as missing, ms. */
const PATIENCE_MS = 60_000;

/** Returns the rate of the raw loop, in a process of its own: V8 compiles one better than the next. */
export async function rawLoop(world: World, forSeconds: number, rate?: number): Promise<Raw> {
  const { receiver, url, ca, secret } = world;
  const loop = start("loop.ts");
  try {
    const request: LoopRequest = { url, ca, secret, seconds: forSeconds };
    await loop.ask<LoopReply>({ ...request, seconds: LOOP_WARM_SECONDS });
    await receiver.ask({ kind: "reset" });
    const reply = await loop.ask<LoopReply>(rate === undefined ? request : { ...request, rate });
    const seen = await receiver.ask<Figures>({ kind: "read" });
    if (seen.bad > 0 || seen.good !== reply.requests) throw new Error(`the raw loop went wrong: ${seen.bad} bad`);
    const { requests, ms, latencies, cpuMicroseconds: cpu } = reply;
    return { perSecond: (requests / ms) * 1_000, cpu: cpu / requests, latencies };
  } finally {
    loop.end();
  }
}

/** All but the last four are of the events that count: those sent after the turn has settled. */
export interface Turn {
  readonly events: number;
  /** Until the last of them arrived. */
  readonly eventsPerSecond: number;
  readonly acceptedPerSecond: number;
  /** Arrived while there was still being published. */
  readonly deliveredPerSecond: number;
  /** Of the relay's process, µs an event. */
  readonly cpu: number;
  /** ms from sending the publication, and from reading its 202, until the whole delivery was received. */
  readonly fromSent: readonly number[];
  readonly fromAccepted: readonly number[];
  /** Events, with those that do not count. */
  readonly all: number;
  readonly missing: number;
  readonly repeated: number;
  /** Deliveries with another signature or body. */
  readonly bad: number;
}

export interface TurnOptions {
  /** Requests a second; as fast as answers come when left out. */
  readonly rate?: number;
  readonly form?: Form;
  readonly keyId?: string;
  /** Of several nodes: the connections are spread over them. */
  readonly ports?: readonly number[];
  /** Most requests. */
  readonly most?: number;
  readonly connections?: number;
  /** Deliveries of each event. @default 1 */
  readonly fanout?: number;
  /** Requests of so many seconds before the others do not count. @default 0 */
  readonly settle?: number;
  /** So long the receiver waits with each answer, ms. @default 0 */
  readonly delayMs?: number;
}

/**
 * Publishes, waits until everything has arrived, and finds each event again by its number. A receiver with a delay loses it
 * when the last event is published, so that no backlog is left to the next turn: later deliveries are older than they say.
 */
export async function turn(
  { receiver, publisher, relay }: World,
  running: RunningRelay,
  seconds: number,
  { fanout = 1, settle = 0, delayMs = 0, ...options }: TurnOptions = {},
): Promise<Turn> {
  const pid = running.child.pid as number;
  await receiver.ask({ kind: "reset" });
  await receiver.ask({ kind: "delay", ms: delayMs });
  const token = await relay.publishToken();
  const settled = async (): Promise<{ readonly cpu: number; readonly since: number }> => {
    if (settle > 0) await new Promise((done) => setTimeout(done, settle * 1_000));
    return { cpu: await cpuMicroseconds(pid), since: settle > 0 ? nowMs() : 0 };
  };
  const request: PublishRequest = { port: relay.port, token, seconds: settle + seconds, ...options };
  const [published, before] = await Promise.all([publisher.ask<PublishReply>(request), settled()]);
  const { accepted, refused, first, acceptedAt, to } = published;
  if (refused > 0 || accepted === 0) throw new Error(`${refused} publications were refused`);
  await receiver.ask({ kind: "delay", ms: 0 });
  await receiver.ask({ kind: "await", count: accepted * fanout, withinMs: PATIENCE_MS });
  const cpu = (await cpuMicroseconds(pid)) - before.cpu;
  const { numbers, at, fromSent: sent, bad, repeated } = await receiver.ask<Figures>({ kind: "read" });

  const from = Math.max(published.from, before.since);
  const fromSent: number[] = [];
  const fromAccepted: number[] = [];
  let [last, meanwhile, strays] = [from, 0, 0];
  for (const [i, number] of numbers.entries()) {
    const [received = 0, took = 0, answered] = [at[i], sent[i], acceptedAt[number - first]];
    // An event of a turn before, all of whose events have arrived.
    if (answered === undefined) strays++;
    if (received > from && received <= to) meanwhile++;
    if (answered === undefined || received - took < before.since) continue;
    last = Math.max(last, received);
    fromSent.push(took);
    // The receiver may read a delivery before the publisher reads the 202.
    fromAccepted.push(Math.max(0, received - answered));
  }
  const events = fromSent.length / fanout;
  return {
    events,
    eventsPerSecond: (events / (last - from)) * 1_000,
    acceptedPerSecond: (accepted / (to - published.from)) * 1_000,
    deliveredPerSecond: (meanwhile / fanout / (to - from)) * 1_000,
    cpu: cpu / events,
    fromSent,
    fromAccepted,
    all: accepted,
    missing: accepted * fanout - (numbers.length - strays),
    repeated: repeated + strays,
    bad,
  };
}

/** A turn whose events all arrived as they should. @throws Error when one is missing or wrong */
export async function pass(
  world: World,
  running: RunningRelay,
  seconds: number,
  options: TurnOptions = {},
): Promise<Turn> {
  const made = await turn(world, running, seconds, options);
  const { missing, bad } = made;
  if (missing > 0 || bad > 0)
    throw new Error(`${missing} deliveries are missing, ${bad} have a wrong signature or body`);
  return made;
}

/** Returns the rate of the raw loop between two runs of it. */
export const meanOf = (a: Raw, b: Raw): Raw => ({
  perSecond: (a.perSecond + b.perSecond) / 2,
  cpu: (a.cpu + b.cpu) / 2,
  latencies: [...a.latencies, ...b.latencies],
});
