// One pass through the relay, one run of the raw loop, and rounds that hold both beside each other.
import type { Form } from "./event.ts";
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

export interface Raw {
  readonly perSecond: number;
  /** Of its process, µs a request. */
  readonly cpu: number;
  /** With a rate: from when a request was due until its answer, ms. */
  readonly latencies: readonly number[];
}

/** By then the raw loop's rate no longer rises. */
const LOOP_WARM_SECONDS = 3;

/** What a run of the raw loop reaches, in a process of its own: V8 compiles one better than the next. */
export async function rawLoop(world: World, forSeconds: number, rate?: number): Promise<Raw> {
  const { receiver, url, ca, secret, connections } = world;
  const loop = start("loop.ts");
  try {
    const request: LoopRequest = { url, ca, secret, connections, seconds: forSeconds };
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

export interface Passed {
  readonly events: number;
  readonly eventsPerSecond: number;
  /** Of the relay's process, µs an event. */
  readonly cpu: number;
  readonly figures: Figures;
}

export interface PassOptions {
  /** Requests a second; as fast as answers come when left out. */
  readonly rate?: number;
  readonly form?: Form;
  readonly keyId?: string;
  /** Most requests. */
  readonly most?: number;
  readonly connections?: number;
  /** Deliveries of each event. @default 1 */
  readonly fanout?: number;
}

/** Publishes, waits until everything has arrived, and checks that it did so once and whole. */
export async function pass(
  { receiver, publisher, relay, connections }: World,
  running: RunningRelay,
  seconds: number,
  { fanout = 1, ...options }: PassOptions = {},
): Promise<Passed> {
  const pid = running.child.pid as number;
  await receiver.ask({ kind: "reset" });
  const before = await cpuMicroseconds(pid);
  const token = await relay.publishToken();
  const request: PublishRequest = { port: relay.port, token, connections, seconds, ...options };
  const { accepted: events, refused, from } = await publisher.ask<PublishReply>(request);
  if (refused > 0 || events === 0) throw new Error(`${refused} publications were refused`);
  // Until the last delivery.
  const count = events * fanout;
  const { at } = await receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count });
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

/** What the raw loop reaches between two runs of it. */
export const meanOf = (a: Raw, b: Raw): Raw => ({
  perSecond: (a.perSecond + b.perSecond) / 2,
  cpu: (a.cpu + b.cpu) / 2,
  latencies: [...a.latencies, ...b.latencies],
});

/** The raw loop, the relay at full speed, the raw loop again, each for as long: all open their connections within that. */
export async function takeRounds(
  world: World,
  running: RunningRelay,
  count: number,
  seconds: number,
  form: Form = "single",
): Promise<Round[]> {
  const rounds: Round[] = [];
  let before = await rawLoop(world, seconds);
  for (let i = 0; i < count; i++) {
    const full = await pass(world, running, seconds, { form });
    const after = await rawLoop(world, seconds);
    const raw = meanOf(before, after);
    rounds.push({ full, raw, ratio: full.eventsPerSecond / raw.perSecond });
    before = after;
  }
  return rounds;
}
