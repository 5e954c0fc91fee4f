// One ordeal: a relay on one storage, published to and delivering for a while, and all that may befall it meanwhile.
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { choose, FAKETIME, fakeTime, faultsFor, killsFor, setClock, type Scene } from "./faults.ts";
import { findProgram, sleep, start } from "./process.ts";
import { KEY, startPublisher } from "./publisher.ts";
import { random } from "./random.ts";
import { openReceivers, type Receivers } from "./receivers.ts";
import { openPair, openRedis } from "./redis.ts";
import { accessToken, makeRelay, type Relay } from "./relay.ts";
import { verify, type Verdict } from "./verify.ts";

export const STORAGES = ["sqlite", "filesystem", "redis"] as const;
export type StorageName = (typeof STORAGES)[number];

export interface OrdealOptions {
  readonly storage: StorageName;
  readonly seed: number;
  /** How long it is tortured; left out when `kills` says it. */
  readonly seconds: number;
  /** Only SIGKILL, so often in all: of relays, and of Redis where there is one. */
  readonly kills?: number;
  readonly say: (text: string) => void;
  /** Ends the torture before its time; the verdict comes all the same. */
  readonly signal?: AbortSignal;
}

export interface Ordeal extends Verdict {
  readonly storage: StorageName;
  readonly seed: number;
  readonly tookMs: number;
  /** How often each fault came. */
  readonly faults: Readonly<Record<string, number>>;
  readonly missing: readonly string[];
  readonly accepted: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly requests: number;
  /** How often another Redis became the master, in whatever fault. */
  readonly failovers: number;
}

/** Short, so that what a killed node held comes back within the run. */
const LEASE_MS = 15_000;
const SMALL_MB = 768;
/** Receivers; odd ones want the second type. */
const RECEIVERS = 6;
/** When all is well again, this long at most for what is pending to come to an end. */
const DRAIN_MS = 30_000;

export async function ordeal(options: OrdealOptions): Promise<Ordeal> {
  const { storage, seed, say } = options;
  const began = performance.now();
  const chance = random(seed);
  const folder = await mkdtemp(join(tmpdir(), `relay-torture-${storage}-`));
  const small = options.kills === undefined && storage !== "redis" && (await mountSmall(folder));
  const data = join(folder, "relay");
  await mkdir(data);
  const clockFile = FAKETIME === undefined || options.kills !== undefined ? undefined : join(data, "clock");
  if (clockFile !== undefined) await setClock(clockFile, "+0s");
  // Kills are about the disk: one Redis that has nobody to take its place.
  const open = options.kills === undefined ? openPair : openRedis;
  const redis = storage === "redis" ? await open(join(folder, "redis")) : undefined;
  await using receivers = await openReceivers(RECEIVERS, chance);
  const relays: Relay[] = [];
  try {
    const expression = redis === undefined ? `${storage}()` : `redis({ ${redis.options}, leaseMs: ${LEASE_MS} })`;
    for (const name of redis === undefined ? ["a"] : ["a", "b"]) {
      const env = clockFile === undefined ? {} : fakeTime(clockFile);
      relays.push(await makeRelay({ name, folder: data, ca: receivers.ca, storage: expression, env }));
    }
    await Promise.all(relays.map((relay) => relay.start()));
    const receiverOf = await subscribe(relays[0] as Relay, receivers);
    const publisher = startPublisher({
      relays,
      random: chance,
      writers: options.kills === undefined ? 6 : 3,
      restMs: 5,
      mostAtOnce: options.kills === undefined ? 12 : 4,
    });
    const scene: Scene = { relays, receivers, random: chance, folder, small, redis, clockFile };
    const counts: Record<string, number> = {};
    const { faults, missing } = options.kills === undefined ? faultsFor(storage, scene) : killsFor(storage);
    const until = performance.now() + options.seconds * 1_000;
    let done = 0;
    const more = (): boolean => (options.kills === undefined ? performance.now() < until : done < options.kills);
    while (more() && options.signal?.aborted !== true) {
      await sleep(chance.int(20, options.kills === undefined ? 600 : 400));
      const fault = choose(faults, chance);
      await fault.act(scene);
      counts[fault.name] = (counts[fault.name] ?? 0) + 1;
      done++;
      if (options.kills !== undefined && done % 50 === 0)
        say(`${done} kills, ${publisher.acknowledged()} acknowledged`);
    }

    receivers.calm();
    await redis?.calm();
    for (const relay of relays) await relay.start();
    await publisher.finish();
    await drained(relays);
    for (const relay of relays) await relay.stop();
    const interruptions = Object.entries(counts).reduce((sum, [name, n]) => sum + (name === "receivers" ? 0 : n), 0);
    const { config } = relays[0] as Relay;
    const verdict = await verify({ config, ledger: publisher.ledger, receivers, receiverOf, interruptions });
    return {
      ...verdict,
      storage,
      seed,
      tookMs: Math.round(performance.now() - began),
      faults: counts,
      missing,
      accepted: publisher.acknowledged(),
      refused: Object.fromEntries(publisher.refused),
      requests: receivers.requests(),
      failovers: redis?.failovers() ?? 0,
    };
  } finally {
    for (const relay of relays) await relay.kill();
    await redis?.end();
    if (small) await start([findProgram("umount") as string, "-l", folder]).gone;
    await rm(folder, { recursive: true, force: true });
  }
}

/** A small disk of its own, so that it can be filled. @returns false where that is not allowed */
async function mountSmall(folder: string): Promise<boolean> {
  const mount = findProgram("mount");
  if (process.getuid?.() !== 0 || mount === undefined) return false;
  const made = start([mount, "-t", "tmpfs", "-o", `size=${SMALL_MB}m,mode=0700`, "tmpfs", folder]);
  await made.gone;
  return made.said() === "";
}

/** @returns subscription → receiver */
async function subscribe(relay: Relay, receivers: Receivers): Promise<ReadonlyMap<string, number>> {
  const token = await accessToken();
  const found = new Map<string, number>();
  for (let i = 0; i < RECEIVERS; i++) {
    const answer = await fetch(`${relay.url}/api-keys/${encodeURIComponent(KEY)}/webhooks`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ url: `${receivers.origin}/${i}`, events: [`t:${i % 2}`] }),
    });
    const { data } = (await answer.json()) as { readonly data?: { readonly id: string; readonly secret: string } };
    if (data === undefined) throw new Error(`a subscription was refused: ${answer.status}`);
    found.set(data.id, i);
    receivers.secrets[i] = data.secret;
  }
  return found;
}

async function drained(relays: readonly Relay[]): Promise<void> {
  const token = await accessToken();
  const until = Date.now() + DRAIN_MS;
  while (Date.now() < until) {
    const left = await Promise.all(relays.map((relay) => backlog(relay, token)));
    if (left.every((count) => count === 0)) return;
    await sleep(100);
  }
}

async function backlog(relay: Relay, token: string): Promise<number> {
  try {
    const answer = await fetch(`${relay.url}/relay/status`, { headers: { authorization: `Bearer ${token}` } });
    const { data } = (await answer.json()) as {
      readonly data?: { readonly backlog: { readonly waiting: number; readonly leased: number } };
    };
    return data === undefined ? 1 : data.backlog.waiting + data.backlog.leased;
  } catch {
    return 1;
  }
}
