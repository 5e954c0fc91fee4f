// What being watched costs: the relay with log and figures beside one without either, in turns, in one run. Each round has
// processes of its own: V8 compiles one a little better than the next, by some percent, for as long as it lives.
import { mkdtemp } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { makeAuthority } from "../core/cli/support/certificates.ts";
import type { Clock } from "../core/ports/clock.ts";
import type { Storage } from "../core/ports/storage.ts";
import { createMetrics } from "../core/runtime/observability/index.ts";
import { watchedStorage } from "../core/runtime/storage-watch.ts";
import { benchRun, round, say } from "./throughput/bench-run.ts";
import { KEY_ID } from "./throughput/event.ts";
import type { FromReceiver, PublishReply, PublishRequest } from "./throughput/messages.ts";
import { cpuMicroseconds, median, own, type Peer, start } from "./throughput/process.ts";
import { prepare, type RelayUnderTest, type RunningRelay } from "./throughput/relay.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each turn; a round has two for each relay. */
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "4" },
    storage: { type: "string", default: "sqlite()" },
  },
});
const seconds = Math.min(Math.max(Number(options.seconds) || 3, 1), 60);
const rounds = Math.min(Math.max(Number(options.rounds) || 4, 1), 20);
const CONNECTIONS = 64;
/** Until V8 has compiled what is hot. */
const WARM_SECONDS = 8;
const BARE = join(import.meta.dirname, "observers/bare.ts");

type Figures = Extract<FromReceiver, { kind: "figures" }>;
interface Subject {
  readonly relay: RelayUnderTest;
  readonly running: RunningRelay;
  readonly secret: string;
}
interface Turn {
  readonly eventsPerSecond: number;
  readonly cpuPerEvent: number;
}

const mean = (turns: readonly Turn[]): Turn => {
  const of = (figure: keyof Turn): number => turns.reduce((sum, one) => sum + one[figure], 0) / turns.length;
  return { eventsPerSecond: of("eventsPerSecond"), cpuPerEvent: of("cpuPerEvent") };
};

async function turn(
  { relay, running, secret }: Subject,
  receiver: Peer,
  publisher: Peer,
  forSeconds: number,
): Promise<Turn> {
  await receiver.ask({ kind: "reset" });
  await receiver.ask({ kind: "secret", secret });
  const pid = running.child.pid as number;
  const cpu = await cpuMicroseconds(pid);
  const token = await relay.publishToken();
  const request: PublishRequest = { port: relay.port, token, connections: CONNECTIONS, seconds: forSeconds };
  const published = await publisher.ask<PublishReply>(request);
  const { at } = await receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({
    kind: "await",
    count: published.accepted,
  });
  const cpuPerEvent = ((await cpuMicroseconds(pid)) - cpu) / published.accepted;
  const { bad } = await receiver.ask<Figures>({ kind: "read" });
  if (bad > 0 || published.refused > 0) throw new Error(`${bad} bad deliveries, ${published.refused} refused`);
  return { eventsPerSecond: (published.accepted / (at - published.from)) * 1_000, cpuPerEvent };
}

/** The storage's decorator stands in both relays, so it is measured by itself: µs a commit. */
async function watchCost(): Promise<number> {
  const clock: Clock = { now: Date.now, monotonic: () => performance.now(), sleep: () => Promise.resolve() };
  const done = Promise.resolve();
  const plain = { queue: { settle: () => done }, commit: () => done } as unknown as Storage;
  const metrics = createMetrics();
  const watched = watchedStorage(plain, clock, metrics);
  const change = [{ op: "delete", key: "a" }] as const;
  const time = async (storage: Storage): Promise<number> => {
    const from = performance.now();
    for (let i = 0; i < 500_000; i++) await storage.commit(change);
    return ((performance.now() - from) * 1_000) / 500_000;
  };
  await time(watched);
  const cost = (await time(watched)) - (await time(plain));
  metrics.dispose();
  return cost;
}

async function measure(folder: string) {
  const { ca, issue } = await makeAuthority(Date.now());
  const { cert, key } = await issue(["127.0.0.1"]);
  const [receiver, publisher] = [start("receiver.ts"), start("publisher.ts")];
  const { port } = await receiver.ask<Extract<FromReceiver, { kind: "listening" }>>({ kind: "listen", cert, key });
  const subject = async (name: string, script?: string): Promise<Subject> => {
    const common = { ca, connections: CONNECTIONS, storage: options.storage, logLevel: "info", script };
    const relay = await prepare({ ...common, folder: await mkdtemp(join(folder, `${name}-`)) });
    const running = await relay.start();
    own(running.child);
    return { relay, running, secret: await relay.subscribe(KEY_ID, `https://127.0.0.1:${port}/hook`) };
  };
  const turns = { full: [] as Turn[], bare: [] as Turn[] };
  for (let i = 0; i < rounds; i++) {
    say(`round ${i + 1} of ${rounds} …`);
    const one = { full: await subject("full"), bare: await subject("bare", BARE) };
    // The order changes, so that neither profits from what the machine does meanwhile.
    const order = i % 2 === 0 ? (["full", "bare"] as const) : (["bare", "full"] as const);
    for (const name of order) await turn(one[name], receiver, publisher, WARM_SECONDS);
    const made = { full: [] as Turn[], bare: [] as Turn[] };
    for (const name of [...order, ...order.toReversed()]) {
      made[name].push(await turn(one[name], receiver, publisher, seconds));
    }
    for (const name of order) turns[name].push(mean(made[name]));
    await Promise.all([one.full.running.stop(), one.bare.running.stop()]);
  }
  const ofAll = (name: "full" | "bare", figure: keyof Turn): number => median(turns[name].map((one) => one[figure]));
  const cpu = median(turns.full.map((one, i) => one.cpuPerEvent / (turns.bare[i] as Turn).cpuPerEvent));
  const throughput = median(turns.full.map((one, i) => one.eventsPerSecond / (turns.bare[i] as Turn).eventsPerSecond));
  return {
    cores: availableParallelism(),
    node: process.version,
    storage: options.storage,
    rounds,
    watched: {
      eventsPerSecond: round(ofAll("full", "eventsPerSecond"), 0),
      cpuMicroseconds: round(ofAll("full", "cpuPerEvent"), 1),
    },
    blind: {
      eventsPerSecond: round(ofAll("bare", "eventsPerSecond"), 0),
      cpuMicroseconds: round(ofAll("bare", "cpuPerEvent"), 1),
    },
    cpuRatio: round(cpu, 3),
    throughputRatio: round(throughput, 3),
    storageWatchMicroseconds: round(await watchCost(), 2),
  };
}

await benchRun({
  longestS: (seconds * 8 + WARM_SECONDS * 4 + 10) * rounds + 30,
  json: options.json,
  measure,
  print(result) {
    const row = (name: string, value: string): void => console.log(`${name.padEnd(46)} ${value}`);
    const { watched, blind } = result;
    row(
      "with log (info) and figures, events/s",
      `${watched.eventsPerSecond} (${watched.cpuMicroseconds} µs CPU an event)`,
    );
    row("without either, events/s", `${blind.eventsPerSecond} (${blind.cpuMicroseconds} µs CPU an event)`);
    row("throughput, watched : blind", String(result.throughputRatio));
    row("CPU an event, watched : blind", String(result.cpuRatio));
    row("watching the storage, µs a commit (in both)", String(result.storageWatchMicroseconds));
  },
});
