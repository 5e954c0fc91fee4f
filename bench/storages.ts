// `npm run bench -- storages`: the main job on SQLite and on Redis in turns, and what the one does of the other.
// Redis is a server of its own on this machine, and syncs before it answers, as SQLite does; `--fsync everysec` eases that.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { endServers, redisServer } from "./queue/surroundings.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    seconds: { type: "string", default: "4" },
    /** How often the two take turns. */
    rounds: { type: "string", default: "3" },
    fsync: { type: "string", default: "always" },
  },
});
const fsync = options.fsync === "everysec" ? "everysec" : "always";
const rounds = Math.min(Math.max(Number(options.rounds) || 3, 1), 20);

interface Run {
  readonly eventsPerSecond: number;
  readonly ratio: number;
  readonly cpuMicrosecondsPerEvent: number;
}

async function measure(storage: string): Promise<Run> {
  const file = join(import.meta.dirname, "throughput.ts");
  const args = [file, "--json", "--seconds", options.seconds, "--storage", storage, "--log", "warn"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${storage} was not measured`);
  return JSON.parse(text) as Run;
}

const round = (value: number): number => Number(value.toFixed(2));
function spread(values: readonly number[]): { readonly least: number; readonly median: number; readonly most: number } {
  const sorted = values.toSorted((a, b) => a - b);
  return { least: sorted[0] ?? 0, median: sorted[Math.floor(sorted.length / 2)] ?? 0, most: sorted.at(-1) ?? 0 };
}

const folder = await mkdtemp(join(tmpdir(), "relay-bench-"));
const turns: { readonly sqlite: Run; readonly redis: Run; readonly ratio: number }[] = [];
try {
  for (let turn = 1; turn <= rounds; turn++) {
    process.stderr.write(`round ${turn} of ${rounds}\n`);
    const url = await redisServer(folder, fsync);
    const sqlite = await measure("sqlite()");
    const redis = await measure(`redis({ url: "${url}" })`);
    await endServers();
    turns.push({ sqlite, redis, ratio: round(redis.eventsPerSecond / sqlite.eventsPerSecond) });
  }
  const result = {
    fsync,
    sqlite: spread(turns.map(({ sqlite }) => sqlite.eventsPerSecond)),
    redis: spread(turns.map(({ redis }) => redis.eventsPerSecond)),
    ratio: spread(turns.map(({ ratio }) => ratio)),
  };
  if (options.json) console.log(JSON.stringify({ ...result, turns }));
  else {
    console.table(
      turns.map(({ sqlite, redis, ratio }) => ({
        "sqlite, events/s": sqlite.eventsPerSecond,
        "redis, events/s": redis.eventsPerSecond,
        "redis / sqlite": ratio,
        "sqlite, µs CPU": sqlite.cpuMicrosecondsPerEvent,
        "redis, µs CPU": redis.cpuMicrosecondsPerEvent,
      })),
    );
    console.log(`redis / sqlite: median ${result.ratio.median}, from ${result.ratio.least} to ${result.ratio.most}`);
  }
} finally {
  await endServers();
  await rm(folder, { recursive: true, force: true });
}
