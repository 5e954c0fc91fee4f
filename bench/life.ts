// The life of an event in the storage alone, beside SQLite in the same run: the commit that accepts it, the claim, the reading
// of it, the renewal and the commit that ends it. And commits alone, of 1, 16 and 64 writers. Where the storage is a server of
// its own, its CPU time is counted.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ordinalFloor } from "../core/model/ids.ts";
import { DUE } from "../core/model/schema.ts";
import type { Due } from "../core/model/delivery.ts";
import type { Storage } from "../core/ports/storage.ts";
import { postgres, sqlite } from "../config/index.ts";
import { context } from "./queue/surroundings.ts";
import { postgresServer } from "./queue/postgres-server.ts";
import { benchRun, say, within } from "./throughput/bench-run.ts";
import { median, percentile } from "./throughput/process.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each turn. */
    seconds: { type: "string", default: "4" },
    rounds: { type: "string", default: "3" },
  },
});
const seconds = within(options.seconds, 1, 60, 4);
const rounds = within(options.rounds, 1, 20, 3);
const PUBLISHERS = 64;
const SUBSCRIPTIONS = 10;
const BODY = "x".repeat(600);

interface Lane {
  readonly name: string;
  readonly storage: Storage;
  readonly serverCpu: () => number;
  readonly logBytes: () => Promise<number>;
}
interface Turn {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly cpu: number;
  readonly serverCpu: number;
  /** What the server has written to its log for each. */
  readonly logBytes: number;
}

let made = 0;
/** A line of an event that is due at once, as intake writes it. */
function accepted(): Due {
  const now = Date.now();
  const ordinal = ordinalFloor(now).slice(0, 10) + String(made++).padStart(16, "0");
  const base = { keyId: "key_1", ordinal, dueAt: now, generation: 0, cycle: 0, attempts: 0 };
  return { ...base, subscriptionId: `sub_${made % SUBSCRIPTIONS}` };
}

async function accept({ storage }: Lane): Promise<void> {
  const due = accepted();
  await storage.commit([
    { op: "put", key: `event:key_1:${due.ordinal}`, value: BODY, if: null },
    { op: "put", key: `eventid:key_1:${due.ordinal}`, value: due.ordinal, if: null },
    { op: "put", key: DUE.key(due), value: DUE.write(due) },
  ]);
  storage.queue.add([due]);
}

async function measured(lane: Lane, work: (until: number, times: number[]) => Promise<number>): Promise<Turn> {
  const logBytes = await lane.logBytes();
  const [cpu, serverCpu, began] = [process.cpuUsage(), lane.serverCpu(), performance.now()];
  const times: number[] = [];
  const count = await work(began + seconds * 1_000, times);
  const [spent, tookMs] = [process.cpuUsage(cpu), performance.now() - began];
  return {
    perSecond: count / (tookMs / 1_000),
    p50Ms: percentile(times, 50),
    cpu: (spent.user + spent.system) / count,
    serverCpu: (lane.serverCpu() - serverCpu) / count,
    logBytes: ((await lane.logBytes()) - logBytes) / count,
  };
}

/** @returns how many were accepted */
async function publish(lane: Lane, writers: number, until: number, times: number[]): Promise<number> {
  let count = 0;
  const one = async (): Promise<void> => {
    for (let at = performance.now(); at < until; at = performance.now()) {
      await accept(lane);
      times.push(performance.now() - at);
      count++;
    }
  };
  await Promise.all(Array.from({ length: writers }, one));
  return count;
}

/** @returns how many lives ended */
async function live(lane: Lane, until: number, times: number[]): Promise<number> {
  const { queue } = lane.storage;
  const busy = new Map<string, number>();
  let [accepting, ended, underWay] = [true, 0, 0];
  const publishing = publish(lane, PUBLISHERS, until, times).finally(() => (accepting = false));
  const stop = new AbortController();
  void publishing.then(() => stop.abort());
  while (accepting || underWay > 0 || (await queue.depth()).waiting > 0) {
    const leases = await queue.claim({ limit: 128, perSubscription: 64, busy });
    for (const lease of leases) {
      underWay++;
      busy.set(lease.subscriptionId, (busy.get(lease.subscriptionId) ?? 0) + 1);
      void (async () => {
        await lane.storage.getItem(`event:key_1:${lease.ordinal}`);
        await queue.extend(lease);
        await queue.settle(lease, [
          { op: "delete", key: DUE.key(lease), if: DUE.write(lease) },
          { op: "put", key: `delivery:${lease.subscriptionId}:${lease.ordinal}`, value: BODY.slice(0, 400) },
        ]);
        busy.set(lease.subscriptionId, (busy.get(lease.subscriptionId) ?? 1) - 1);
        underWay--;
        ended++;
      })();
    }
    if (leases.length === 0) await queue.wake(AbortSignal.any([stop.signal, AbortSignal.timeout(50)]));
    await new Promise((turned) => void setImmediate(turned));
  }
  await publishing;
  return ended;
}

async function drain({ storage: { queue } }: Lane): Promise<void> {
  for (;;) {
    const leases = await queue.claim({ limit: 512, perSubscription: 512, busy: new Map() });
    await Promise.all(leases.map((lease) => queue.settle(lease, [{ op: "delete", key: DUE.key(lease) }])));
    if (leases.length === 0 && (await queue.depth()).waiting === 0) return;
    await new Promise((turned) => void setImmediate(turned));
  }
}

async function measure(folder: string) {
  const dirs = [join(folder, "sqlite"), join(folder, "pg")];
  for (const dir of dirs) mkdirSync(dir);
  const server = await postgresServer(dirs[1] as string);
  const lanes: readonly Lane[] = [
    {
      name: "sqlite()",
      storage: await sqlite({ dir: dirs[0] as string }).setup(context(dirs[0] as string)),
      serverCpu: () => 0,
      logBytes: async () => 0,
    },
    {
      name: "postgres()",
      storage: await postgres({ url: server.url }).setup(context(dirs[1] as string)),
      serverCpu: server.cpu,
      logBytes: server.logBytes,
    },
  ];
  for (const { storage } of lanes) await storage.queue.sweep();
  const phases: readonly (readonly [string, (lane: Lane, until: number, times: number[]) => Promise<number>])[] = [
    ["commits of 1 writer", (lane, until, times) => publish(lane, 1, until, times)],
    ["commits of 16 writers", (lane, until, times) => publish(lane, 16, until, times)],
    ["commits of 64 writers", (lane, until, times) => publish(lane, 64, until, times)],
    ["whole life, 64 publishers", live],
  ];
  const rows = [];
  for (const [phase, work] of phases) {
    const turns: Turn[][] = lanes.map(() => []);
    for (let i = 0; i <= rounds; i++)
      for (const [at, lane] of lanes.entries()) {
        const turn = await measured(lane, (until, times) => work(lane, until, times));
        // The first is to warm up.
        if (i > 0) turns[at]?.push(turn);
        await drain(lane);
      }
    const [first] = turns.map((one) => figures(one));
    for (const [at, { name }] of lanes.entries()) {
      const own = figures(turns[at] ?? []);
      const ratio = own.perSecond / (first?.perSecond ?? 1);
      const cpuRatio = (own.cpu + own.serverCpu) / (first?.cpu ?? 1);
      rows.push({ phase, storage: name, ...own, ratio, cpuRatio });
      say(
        `${phase}, ${name}: ${Math.round(own.perSecond)}/s (${ratio.toFixed(2)}), p50 ${own.p50Ms.toFixed(2)} ms, ${own.cpu.toFixed(0)} + ${own.serverCpu.toFixed(0)} µs (${cpuRatio.toFixed(2)}), log ${own.logBytes.toFixed(0)} B`,
      );
    }
  }
  for (const { storage } of lanes) await storage.dispose();
  return { rows };
}

function figures(turns: readonly Turn[]): Turn {
  const of = (name: keyof Turn): number => median(turns.map((turn) => turn[name]));
  return {
    perSecond: of("perSecond"),
    p50Ms: of("p50Ms"),
    cpu: of("cpu"),
    serverCpu: of("serverCpu"),
    logBytes: of("logBytes"),
  };
}

await benchRun({ longestS: 900, json: options.json, measure, print: ({ rows }) => console.table(rows) });
