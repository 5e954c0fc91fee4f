// One pass through the relay, one run of the raw loop, and rounds that hold both beside each other.
import {
  type PublishReply,
  type PublishRequest,
  type FromReceiver,
  type LoopReply,
  type LoopRequest,
} from "./messages.ts";
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
  readonly connections: number;
}

interface Raw {
  readonly perSecond: number;
  /** Of its process, µs a request. */
  readonly cpu: number;
}

/** By then the raw loop's rate no longer rises. */
const LOOP_WARM_SECONDS = 3;

/** What a run of the raw loop reaches, in a process of its own: V8 compiles one better than the next. */
async function rawLoop(world: World, forSeconds: number): Promise<Raw> {
  const { receiver, url, ca, secret, connections } = world;
  const loop = start("loop.ts");
  try {
    const request: LoopRequest = { url, ca, secret, connections, seconds: forSeconds };
    await loop.ask<LoopReply>({ ...request, seconds: LOOP_WARM_SECONDS });
    await receiver.ask({ kind: "reset" });
    const reply = await loop.ask<LoopReply>(request);
    const seen = await receiver.ask<Figures>({ kind: "read" });
    if (seen.bad > 0 || seen.good !== reply.requests) throw new Error(`the raw loop went wrong: ${seen.bad} bad`);
    return { perSecond: (reply.requests / reply.ms) * 1_000, cpu: reply.cpuMicroseconds / reply.requests };
  } finally {
    loop.end();
  }
}

export interface Passed {
  readonly events: number;
  readonly eventsPerSecond: number;
  /** Of the relay's process, µs an event. */
  readonly cpu: number;
  readonly figures: Figures;
}

/** Publishes, waits until everything has arrived, and checks that it did so once and whole. */
export async function pass(world: World, running: RunningRelay, forSeconds: number, rate?: number): Promise<Passed> {
  const { receiver, publisher, relay, connections } = world;
  const pid = running.child.pid as number;
  await receiver.ask({ kind: "reset" });
  const before = await cpuMicroseconds(pid);
  const token = await relay.publishToken();
  const request: PublishRequest = { port: relay.port, token, connections, seconds: forSeconds, rate };
  const { accepted: events, refused, from } = await publisher.ask<PublishReply>(request);
  if (refused > 0 || events === 0) throw new Error(`${refused} publications were refused`);
  // Until the last delivery.
  const { at } = await receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count: events });
  const cpu = ((await cpuMicroseconds(pid)) - before) / events;
  const figures = await receiver.ask<Figures>({ kind: "read" });
  if (figures.bad > 0) throw new Error(`${figures.bad} deliveries had a wrong signature or body`);
  return { events, eventsPerSecond: (events / (at - from)) * 1_000, cpu, figures };
}

export interface Round {
  readonly full: Passed;
  /** Means of the raw loop before and after. */
  readonly raw: Raw;
  /** Events through the relay to one request of the raw loop, in the same time. */
  readonly ratio: number;
}

/** The raw loop, the relay at full speed, the raw loop again, each for as long: all open their connections within that. */
export async function takeRounds(
  world: World,
  running: RunningRelay,
  count: number,
  seconds: number,
): Promise<Round[]> {
  const rounds: Round[] = [];
  let before = await rawLoop(world, seconds);
  for (let i = 0; i < count; i++) {
    const full = await pass(world, running, seconds);
    const after = await rawLoop(world, seconds);
    const raw = { perSecond: (before.perSecond + after.perSecond) / 2, cpu: (before.cpu + after.cpu) / 2 };
    rounds.push({ full, raw, ratio: full.eventsPerSecond / raw.perSecond });
    before = after;
  }
  return rounds;
}
