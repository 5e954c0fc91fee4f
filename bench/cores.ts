// How the rate grows with the threads: each thread of the relay has a part of a core of its own, publisher and receiver are
// outside. Where CPU cgroups may not be used it says so, and measures on the machine's cores as they are.
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { makeAuthority } from "../core/cli/support/certificates.ts";
import { partCores, type PartCores } from "./cores/part-cores.ts";
import { say } from "./throughput/bench-run.ts";
import { KEY_ID } from "./throughput/event.ts";
import type { FromReceiver } from "./throughput/messages.ts";
import { endAll, median, own, start } from "./throughput/process.ts";
import { prepare } from "./throughput/relay.ts";
import { pass } from "./throughput/rounds.ts";
import { WARM_SECONDS } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** How long a round publishes at full speed. */
    seconds: { type: "string", default: "10" },
    rounds: { type: "string", default: "3" },
    connections: { type: "string", default: "64" },
    storage: { type: "string", default: "sqlite()" },
    threads: { type: "string", default: "1,2,4" },
    /** Each thread gets one of so many parts of a core. All of them, the publisher and the receiver must find room on the machine. */
    parts: { type: "string", default: "4" },
  },
});
const seconds = Math.min(Math.max(Number(options.seconds) || 10, 1), 120);
const rounds = Math.min(Math.max(Number(options.rounds) || 3, 1), 20);
const connections = Math.min(Math.max(Number(options.connections) || 64, 1), 512);
const parts = Math.min(Math.max(Number(options.parts) || 4, 1), 64);
const counts = options.threads.split(",").map(Number);

async function measure(threads: number) {
  const folder = await mkdtemp(join(tmpdir(), "relay-bench-"));
  let cgroups: PartCores | undefined;
  try {
    const authority = await makeAuthority(Date.now());
    const { cert, key } = await authority.issue(["127.0.0.1"]);
    const receiver = start("receiver.ts");
    const { port } = await receiver.ask<Extract<FromReceiver, { kind: "listening" }>>({ kind: "listen", cert, key });
    const url = `https://127.0.0.1:${port}/hook`;
    const config = `threads: ${threads},`;
    const { ca } = authority;
    const relay = await prepare({ folder, ca, connections, storage: options.storage, logLevel: "warn", config });
    say(`${threads} threads: starting the relay …`);
    const running = await relay.start();
    own(running.child);
    const secret = await relay.subscribe(KEY_ID, url);
    await receiver.ask({ kind: "secret", secret });
    const publisher = start("publisher.ts");
    const world = { receiver, publisher, relay, url, ca, secret, connections };
    say("warming up …");
    // Each thread compiles for itself what is hot.
    await pass(world, running, WARM_SECONDS * Math.min(threads, 4));
    try {
      cgroups = partCores(running.child.pid as number, parts);
    } catch (error) {
      say(`CPU cgroups may not be used here (${String(error)}): the machine's cores are measured as they are`);
    }
    const rates: number[] = [];
    const cpu: number[] = [];
    for (let round = 0; round < rounds; round++) {
      say(`round ${round + 1} of ${rounds} …`);
      const passed = await pass(world, running, seconds);
      rates.push(passed.eventsPerSecond);
      cpu.push(passed.cpu);
    }
    await running.stop();
    receiver.end();
    publisher.end();
    return {
      threads,
      cgroups: cgroups !== undefined,
      eventsPerSecond: Math.round(median(rates)),
      least: Math.round(Math.min(...rates)),
      most: Math.round(Math.max(...rates)),
      cpuMicrosecondsPerEvent: Math.round(median(cpu)),
    };
  } finally {
    cgroups?.remove();
    await rm(folder, { recursive: true, force: true });
  }
}

let failed = false;
try {
  const results = [];
  for (const threads of counts) results.push(await measure(threads));
  const first = results[0]?.eventsPerSecond ?? Number.NaN;
  const all = results.map((one) => ({ ...one, timesTheFirst: Number((one.eventsPerSecond / first).toFixed(2)) }));
  if (options.json)
    console.log(JSON.stringify({ cores: availableParallelism(), storage: options.storage, results: all }));
  else
    for (const one of all) {
      const where = one.cgroups
        ? `a ${parts === 4 ? "quarter" : `${parts}th part`} of a core each`
        : "the machine's cores";
      const spread = `${one.least} … ${one.most}`;
      console.log(
        `${one.threads} threads, ${where}: ${one.eventsPerSecond} events/s (${spread}), ${one.timesTheFirst} × the first, ${one.cpuMicrosecondsPerEvent} µs CPU an event`,
      );
    }
} catch (error) {
  failed = true;
  say(error instanceof Error ? error.message : String(error));
} finally {
  endAll();
}
process.exit(failed ? 1 : 0);
