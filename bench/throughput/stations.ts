/** Splits the cost of an event among the rooms of the relay, by CPU profiles of its process. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Longer times between two samples are the machine's, which gave the core to something else, µs. */
const LONGEST_US = 1_500;
/** The rooms of a station. The first that a sample's stack meets, from the innermost frame out, gets its time. */
const STATIONS: readonly (readonly [string, RegExp])[] = [
  ["log and metrics", /core\/runtime\/observability|\/pino|prom-client/],
  ["sign", /core\/signing/],
  ["storage: writer thread", /plugins\/storage\/sqlite\/worker/],
  ["storage: main thread", /plugins\/storage/],
  ["intake: HTTP and token", /core\/api\/http|plugins\/source|core\/runtime\/server/],
  ["intake: parse and accept", /core\/publish|core\/records|core\/model|core\/lib/],
  ["deliver: claim, slots, outcome", /core\/deliver|\/p-retry/],
  ["contain: walls around plug-ins", /core\/runtime\/contain/],
  ["deliver: connections and TLS", /core\/guard/],
  ["deliver: undici and the transport", /plugins\/transport|\/undici/],
];
const REST = "Node: sockets, HTTP, timers, promises";
const COLLECTOR = "garbage collection";

/** @returns µs of CPU time an event, by station, those that take most first */
export async function stations(folder: string, events: number): Promise<ReadonlyMap<string, number>> {
  const times = new Map<string, number>();
  for (const name of await readdir(folder)) {
    if (!name.endsWith(".cpuprofile")) continue;
    const profile = JSON.parse(await readFile(join(folder, name), "utf8")) as Profile;
    const station = stationsOf(profile);
    for (const [i, sample] of profile.samples.entries()) {
      const at = station.get(sample);
      if (at === undefined) continue;
      const took = Math.min(profile.timeDeltas[i] ?? 0, LONGEST_US);
      times.set(at, (times.get(at) ?? 0) + took / events);
    }
  }
  return new Map([...times].toSorted(([, a], [, b]) => b - a));
}

/** The station of each node of the call tree; none for idle ones. */
function stationsOf({ nodes }: Profile): ReadonlyMap<number, string> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const found = new Map<number, string>();
  for (const { id, callFrame } of nodes) {
    if (callFrame.functionName === "(idle)") continue;
    if (callFrame.functionName === "(garbage collector)") {
      found.set(id, COLLECTOR);
      continue;
    }
    let station: string | undefined;
    for (let at: number | undefined = id; at !== undefined && station === undefined; at = parents.get(at)) {
      const { url } = byId.get(at)?.callFrame ?? { url: "" };
      station = STATIONS.find(([, rooms]) => rooms.test(url))?.[0];
    }
    found.set(id, station ?? REST);
  }
  return found;
}
