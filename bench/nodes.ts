// What 1, 2 and 4 nodes with a quarter of a core each deliver on one PostgreSQL and on one Redis, of which each syncs before it
// answers. The servers, the publisher and the receiver have the rest of the machine: where that is used up, no node helps.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { postgresServer } from "./queue/postgres-server.ts";
import { endGroups, quarterCore } from "./queue/quarter-core.ts";
import { endServers, redisServer } from "./queue/surroundings.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { cpuMicroseconds, median, own } from "./throughput/process.ts";
import { prepare, type RunningRelay } from "./throughput/relay.ts";
import { turn } from "./throughput/rounds.ts";
import { openWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    seconds: { type: "string", default: "6" },
    rounds: { type: "string", default: "3" },
    storages: { type: "string", default: "postgres,redis" },
    nodes: { type: "string", default: "1,2,4" },
  },
});
const seconds = within(options.seconds, 1, 60, 6);
const rounds = within(options.rounds, 1, 20, 3);
const counts = options.nodes.split(",").map((one) => within(one, 1, 16, 1));
const WARM_S = 4;

interface Row {
  readonly storage: string;
  readonly nodes: number;
  readonly deliveredPerSecond: number;
  /** To what one node delivers. */
  readonly ratio: number;
  /** Of all nodes, µs an event. */
  readonly cpu: number;
  readonly repeated: number;
}

let limited = true;

async function onServer(storage: string, folder: string): Promise<readonly Row[]> {
  await mkdir(folder);
  const url = storage === "redis" ? await redisServer(folder, "always") : (await postgresServer(folder)).url;
  const expression = `${storage}({ url: "${url}" })`;
  const world = await openWorld({ folder, storage: expression });
  const all: { readonly port: number; readonly running: RunningRelay }[] = [
    { port: world.relay.port, running: world.running },
  ];
  const rows: Row[] = [];
  for (const nodes of counts) {
    while (all.length < nodes) {
      const dir = join(folder, String(all.length));
      await mkdir(dir);
      const relay = await prepare({ folder: dir, storage: expression, ca: world.ca });
      const running = await relay.start();
      own(running.child);
      all.push({ port: relay.port, running });
    }
    for (const { running } of all) limited = quarterCore(running.child.pid as number) && limited;
    const ports = all.map(({ port }) => port);
    const spent = async (): Promise<number> => {
      const each = await Promise.all(all.map(({ running }) => cpuMicroseconds(running.child.pid as number)));
      return each.reduce((sum, one) => sum + one, 0);
    };
    say(`${storage}, ${nodes} nodes …`);
    await turn(world, world.running, WARM_S, { ports });
    const rates: number[] = [];
    const cpu: number[] = [];
    let repeated = 0;
    for (let i = 0; i < rounds; i++) {
      const before = await spent();
      const one = await turn(world, world.running, seconds, { ports });
      if (one.missing + one.bad > 0) throw new Error(`${one.missing} missing, ${one.bad} bad`);
      rates.push(one.eventsPerSecond);
      cpu.push(((await spent()) - before) / one.all);
      repeated += one.repeated;
    }
    const ratio = median(rates) / (rows[0]?.deliveredPerSecond ?? median(rates));
    rows.push({
      storage,
      nodes,
      deliveredPerSecond: round(median(rates)),
      ratio: round(ratio, 2),
      cpu: round(median(cpu)),
      repeated,
    });
  }
  for (const { running } of all.slice(1)) await running.stop();
  await world.end();
  return rows;
}

async function measure(folder: string): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const storage of options.storages.split(",")) rows.push(...(await onServer(storage, join(folder, storage))));
  return rows;
}

await benchRun({
  longestS: 1_200,
  json: options.json,
  measure,
  print(rows) {
    console.log(limited ? "a quarter of a core for each node" : "no cgroups here: the nodes share all cores");
    console.table(rows);
  },
  async end() {
    await endServers();
    endGroups();
  },
});
