// Measures the effect on a healthy receiver of a thousand hostile subscriptions: its latencies at ten events a second, first without
// them and then beside them, in one run, on one real relay with SQLite. Half of them stand on the healthy one's key.
import { parseArgs } from "node:util";
import { MOODS, type FromHostile } from "./isolation/hostile.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { KEY_ID, publication } from "./throughput/event.ts";
import type { FromReceiver } from "./throughput/messages.ts";
import { percentile, start, type Peer } from "./throughput/process.ts";
import type { RelayUnderTest } from "./throughput/relay.ts";
import { openWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each of the two measurements. */
    seconds: { type: "string", default: "40" },
    hostile: { type: "string", default: "1000" },
  },
});
const seconds = within(options.seconds, 5, 600, 40);
const hostile = within(options.hostile, 10, 10_000, 1_000);
/** Events a second for the healthy receiver. */
const RATE = 10;
/** Each hostile subscription gets an event so often, ms. */
const FEED_MS = 4_000;
/** Event types of a key, each for a part of its hostile subscriptions. */
const GROUPS = 10;
/** So long they have to take what slots they can get before the measurement, s. */
const SETTLE_S = 15;
const ORIGINS = 10;
const OTHER_KEYS = 10;
/** Limits that must be reached. */
const LIMITS = { ratio: 1.5, p99Ms: 250 };

interface Latency {
  readonly events: number;
  /** Publications that met back-pressure. */
  readonly refused: number;
  readonly p50: number;
  readonly p99: number;
}

/** True when it was accepted. A machine that has no core to spare is refused with "the storage is slow". */
async function publish(relay: RelayUnderTest, body: string): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${relay.port}/events`, {
    method: "POST",
    headers: { authorization: `Bearer ${await relay.publishToken()}`, "content-type": "application/json" },
    body,
  });
  const text = await answer.text();
  if (answer.status !== 202 && answer.status !== 429) throw new Error(`a publication failed: ${text}`);
  return answer.status === 202;
}

/** Publishes at a steady rate, whatever answers take, until the last event has arrived. */
async function measure(receiver: Peer, relay: RelayUnderTest, forSeconds: number): Promise<Latency> {
  await receiver.ask({ kind: "reset" });
  const sent: Promise<boolean>[] = [];
  const from = performance.now();
  for (let n = 0; n < forSeconds * RATE; n++) {
    await new Promise((done) => setTimeout(done, Math.max(0, from + (n * 1_000) / RATE - performance.now())));
    sent.push(publish(relay, publication()));
  }
  const events = (await Promise.all(sent)).filter(Boolean).length;
  // A starved event does not arrive: the run ends by its deadline, and says so.
  await receiver.ask({ kind: "await", count: events });
  const { fromSent } = await receiver.ask<Extract<FromReceiver, { kind: "figures" }>>({ kind: "read" });
  return {
    events,
    refused: sent.length - events,
    p50: round(percentile(fromSent, 50), 1),
    p99: round(percentile(fromSent, 99), 1),
  };
}

/** One event after the other for each group of hostile subscriptions, spread out evenly. */
function feed(relay: RelayUnderTest, keys: readonly string[]): () => void {
  let next = 0;
  const timer = setInterval(
    () => {
      const [keyId, group] = [keys[next % keys.length], Math.floor(next / keys.length) % GROUPS];
      const event = JSON.stringify({ type: `bench:hostile${group}`, keyId, data: next++ });
      publish(relay, event).catch((error: unknown) => say(String(error)));
    },
    FEED_MS / keys.length / GROUPS,
  );
  return () => clearInterval(timer);
}

async function run(folder: string) {
  // The limits would slow down the making of subscriptions; they hold nothing up that is published.
  const config = `limits: { "*": false }, subscriptions: { perKey: ${hostile + 1} },`;
  const world = await openWorld({ folder, logLevel: "error", config });
  const { receiver, relay } = world;
  const bad = start("../isolation/hostile.ts");
  const ask = { kind: "listen", ...world.tls, servers: ORIGINS };
  const { ports } = await bad.ask<Extract<FromHostile, { kind: "listening" }>>(ask);

  say(`${hostile} hostile subscriptions …`);
  const others = Array.from({ length: OTHER_KEYS }, (_, i) => `key_other_${i}`);
  await relay.subscribeAll(
    Array.from({ length: hostile }, (_, i) => {
      const mood = MOODS[i % MOODS.length] as (typeof MOODS)[number];
      const url = `https://127.0.0.1:${ports[Math.floor(i / MOODS.length) % ports.length]}/${mood}/${i}`;
      const keyId = i < hostile / 2 ? KEY_ID : (others[i % others.length] as string);
      const events = [`bench:hostile${Math.floor(i / MOODS.length / 2) % GROUPS}`];
      return { keyId, body: { url, events, ...(mood === "late" && { timeoutMs: 30_000 }) } };
    }),
  );

  await measure(receiver, relay, 5);
  say(`${seconds} s of ${RATE} events/s without them …`);
  const alone = await measure(receiver, relay, seconds);
  const stop = feed(relay, [KEY_ID, ...others]);
  await new Promise((done) => setTimeout(done, SETTLE_S * 1_000));
  say(`${seconds} s beside them …`);
  const beside = await measure(receiver, relay, seconds);
  stop();
  const { requests, mostOpen, connections, resumed } = await bad.ask<Extract<FromHostile, { kind: "figures" }>>({
    kind: "read",
  });
  world.running.child.kill("SIGKILL");
  const ratio = beside.p99 / alone.p99;
  return {
    hostile,
    hostileRequests: requests,
    hostileMostOpen: mostOpen,
    hostileConnections: connections,
    hostileResumed: resumed,
    seconds,
    alone,
    beside,
    ratio: round(ratio, 1),
    met: ratio <= LIMITS.ratio && beside.p99 <= LIMITS.p99Ms && beside.refused === 0,
  };
}

await benchRun({
  longestS: 2 * seconds + SETTLE_S + 120 + hostile / 10,
  json: options.json,
  measure: run,
  met: ({ met }) => met,
  print(result) {
    const row = (name: string, { events, refused, p50, p99 }: Latency): void =>
      console.log(`${name.padEnd(36)} p50 ${p50}, p99 ${p99} (${events} events, ${refused} refused)`);
    row("publish sent → receiver alone, ms", result.alone);
    row(`beside ${hostile} hostile ones, ms`, result.beside);
    console.log(
      `hostile requests: ${JSON.stringify(result.hostileRequests)}, at most ${result.hostileMostOpen} at once; ` +
        `${result.hostileConnections} connections, ${result.hostileResumed} of them resumed`,
    );
    console.log(`p99 is ${result.ratio} times as long: ${result.met ? "as it should be" : "too long"}`);
  },
});
