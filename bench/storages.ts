// The main job on each storage, for each form of a publication, beside the raw loop: events with ids of the relay's and of
// the publisher's, one a request, a hundred in a list and a hundred as NDJSON. Redis is a server of its own on this machine,
// and syncs before it answers, as SQLite and the filesystem do; `--fsync everysec` eases that.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { postgresServer } from "./queue/postgres-server.ts";
import { endServers, redisServer } from "./queue/surroundings.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { CONNECTIONS, eventsIn, type Form, FORMS } from "./throughput/event.ts";
import { median } from "./throughput/process.ts";
import { meanOf, pass, type Raw, rawLoop, type Turn } from "./throughput/rounds.ts";
import { openWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** How long each form is published in a round. */
    seconds: { type: "string", default: "2" },
    rounds: { type: "string", default: "3" },
    storages: { type: "string", default: "sqlite,filesystem,redis,memory" },
    fsync: { type: "string", default: "always" },
  },
});
const seconds = within(options.seconds, 1, 30, 2);
const rounds = within(options.rounds, 1, 20, 3);
const fsync = options.fsync === "everysec" ? "everysec" : "always";
const names = options.storages.split(",");
/** Connections that publish lists: a hundred events each are under way on them. */
const LISTS = 2;
const WARM_S = 8;

interface Row {
  readonly storage: string;
  readonly form: Form;
  readonly eventsPerSecond: number;
  readonly least: number;
  readonly most: number;
  /** Events to one request of the raw loop in the same time. */
  readonly ratio: number;
  readonly cpuMicrosecondsPerEvent: number;
  /** CPU of an event to that of a request of the raw loop. */
  readonly cpuRatio: number;
  readonly repeated: number;
}

type Round = Readonly<Record<Form, Turn>> & { readonly raw: Raw };

async function expressionOf(storage: string, dir: string): Promise<string> {
  if (storage === "redis") return `redis({ url: "${await redisServer(dir, fsync)}" })`;
  if (storage === "postgres") return `postgres({ url: "${(await postgresServer(dir)).url}" })`;
  return `${storage}()`;
}

async function onStorage(storage: string, folder: string): Promise<Row[]> {
  const dir = join(folder, storage);
  await mkdir(dir);
  const expression = await expressionOf(storage, dir);
  say(`${storage}: warming up …`);
  const world = await openWorld({ folder: dir, storage: expression });
  const publish = (form: Form, forSeconds: number): Promise<Turn> =>
    pass(world, world.running, forSeconds, { form, connections: eventsIn(form) > 1 ? LISTS : CONNECTIONS });
  for (const form of FORMS) await publish(form, WARM_S / FORMS.length);
  const taken: Round[] = [];
  let before = await rawLoop(world, seconds);
  for (let i = 0; i < rounds; i++) {
    say(`${storage}: round ${i + 1} of ${rounds} …`);
    const passed: Partial<Record<Form, Turn>> = {};
    for (const form of FORMS) passed[form] = await publish(form, seconds);
    const after = await rawLoop(world, seconds);
    taken.push({ ...(passed as Record<Form, Turn>), raw: meanOf(before, after) });
    before = after;
  }
  await world.end();
  await endServers();
  return FORMS.map((form) => rowOf(storage, form, taken));
}

function rowOf(storage: string, form: Form, taken: readonly Round[]): Row {
  const rates = taken.map((one) => one[form].eventsPerSecond);
  return {
    storage,
    form,
    eventsPerSecond: round(median(rates)),
    least: round(Math.min(...rates)),
    most: round(Math.max(...rates)),
    ratio: round(median(taken.map((one) => one[form].eventsPerSecond / one.raw.perSecond)), 2),
    cpuMicrosecondsPerEvent: round(median(taken.map((one) => one[form].cpu))),
    cpuRatio: round(median(taken.map((one) => one[form].cpu / one.raw.cpu)), 2),
    repeated: taken.reduce((sum, one) => sum + one[form].repeated, 0),
  };
}

await benchRun({
  longestS: names.length * (120 + rounds * (seconds * 20 + 20)),
  json: options.json,
  async measure(folder) {
    const rows: Row[] = [];
    for (const name of names) rows.push(...(await onStorage(name, folder)));
    return { seconds, rounds, fsync, rows };
  },
  met: ({ rows }) => rows.every(({ repeated }) => repeated === 0),
  print({ rows }) {
    console.table(
      rows.map(({ storage, form, eventsPerSecond, least, most, ratio, cpuMicrosecondsPerEvent, cpuRatio }) => ({
        storage,
        form,
        "events/s": eventsPerSecond,
        "of the rounds": `${least} … ${most}`,
        "to the raw loop": ratio,
        "µs CPU an event": cpuMicrosecondsPerEvent,
        "CPU to the raw loop": cpuRatio,
      })),
    );
  },
  end: endServers,
});
