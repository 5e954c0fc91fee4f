// One ordeal: a relay on one storage, published to, managed and delivering for a while, and all that may befall it meanwhile.
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { drained } from "./drain.ts";
import { choose, FAKETIME, fakeTime, faultsFor, killsFor, setClock, type Scene } from "./faults.ts";
import { openErasures } from "./erasures.ts";
import { openKeyEraser } from "./key-eraser.ts";
import { openOperator } from "./operator.ts";
import { middle, openProbes } from "./probes.ts";
import { findCommand } from "../find-program.ts";
import { sleep, start } from "./process.ts";
import { publications } from "./publications.ts";
import { startPublisher, type Publisher } from "./publisher.ts";
import { random } from "./random.ts";
import { openReceivers } from "./receivers.ts";
import { openPostgres, openPostgresPair } from "./postgres.ts";
import { openPair, openRedis, type TorturedServer } from "./redis.ts";
import { makeRelay, type Relay } from "./relay.ts";
import { openTimeline } from "./timeline.ts";
import { verify, type Verdict } from "./verify.ts";

export const STORAGES = ["sqlite", "filesystem", "redis", "postgres"] as const;
export type StorageName = (typeof STORAGES)[number];

/** Kills are about the disk: one server that has nobody to take its place. */
const SERVERS: Readonly<Record<string, Readonly<Record<"one" | "pair", (folder: string) => Promise<TorturedServer>>>>> =
  {
    redis: { one: openRedis, pair: openPair },
    postgres: { one: openPostgres, pair: openPostgresPair },
  };

export interface OrdealOptions {
  readonly storage: StorageName;
  readonly seed: number;
  /** How long it is tortured; left out when `kills` says it. */
  readonly seconds: number;
  /** Only SIGKILL, so often in all: of relays, and of their server where there is one. */
  readonly kills?: number;
  /** Faults that are left out. */
  readonly without?: readonly string[];
  /** Subscriptions of the kind of event that goes to very many. @default 60 */
  readonly wide?: number;
  /** The command that starts a relay. @default the command of this checkout */
  readonly command?: readonly string[];
  /** True when all receivers but one hang for a while at the end. @default true */
  readonly hostile?: boolean;
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
  /** Changes of subscriptions meanwhile. */
  readonly managed: Readonly<Record<string, number>>;
  readonly requests: number;
  /** Middle wait of an event for a receiver that is well, ms: while nothing disturbed it, and while all others hung. */
  readonly waitMs: { readonly undisturbed: number; readonly hostile: number };
  /** How often another server took the place of the one that takes writes, in whatever fault. */
  readonly failovers: number;
}

/** Short, so that what a killed node held comes back within the run. */
const LEASE_MS = 35_000;
const SMALL_MB = 768;
/** Subscriptions that nobody changes, of two kinds of events, and of the kind that goes to very many. */
const KINDS = [
  { keyId: "key:torture", type: "t:0" },
  { keyId: "key:torture", type: "t:1" },
] as const;
const EACH = 3;
const WIDE = { keyId: "key:wide", type: "w:all" };
const WIDE_COUNT = 60;
/** Probes count every event of their keys. */
const erasable = (keyId: string): boolean => [WIDE.keyId, ...KINDS.map((kind) => kind.keyId)].includes(keyId);
const WIDE_MOODY = 0.1;
/** A relay that was just started takes something in within this, mostly. */
const BUSY_MS = 2_000;
/** When all is well again, whatever is due is attempted within the longest lease and this. */
const OVERDUE_MS = 10_000;
const BREAKER = "{ breakerAfter: 20, breakerPauseMs: 500, breakerMaxPauseMs: 1000, disableAfterMs: 432000000 }";

export async function ordeal(options: OrdealOptions): Promise<Ordeal> {
  const { storage, seed, say } = options;
  const killing = options.kills !== undefined;
  const began = performance.now();
  const chance = random(seed);
  const opens = SERVERS[storage]?.[killing ? "one" : "pair"];
  const folder = await mkdtemp(join(tmpdir(), `relay-torture-${storage}-`));
  const small = !killing && opens === undefined && (await mountSmall(folder));
  const data = join(folder, "relay");
  await mkdir(data);
  const clockFile = FAKETIME === undefined || killing ? undefined : join(data, "clock");
  if (clockFile !== undefined) await setClock(clockFile, "+0s");
  const server = await opens?.(join(folder, storage));
  const timeline = openTimeline();
  await using receivers = await openReceivers(chance);
  const relays: Relay[] = [];
  try {
    const expression =
      server === undefined ? `${storage}()` : `${storage}({ ${server.options}, leaseMs: ${LEASE_MS} })`;
    for (const name of server === undefined ? ["a"] : ["a", "b"]) {
      const env = clockFile === undefined ? {} : fakeTime(clockFile);
      // A breaker that rests the failing ones would let no delivery come to its end between two kills.
      const health = killing ? "false" : BREAKER;
      relays.push(
        await makeRelay({
          name,
          folder: data,
          ca: receivers.ca,
          storage: expression,
          health,
          env,
          command: options.command,
        }),
      );
    }
    await Promise.all(relays.map((relay) => relay.start()));
    const published = publications({
      ...{ random: chance, kinds: KINDS, wide: WIDE },
      mostAtOnce: killing ? 4 : 12,
      largeBytes: 96 << 20,
    });
    const erasures = openErasures();
    const publisher = startPublisher({
      ...{ relays, random: chance, publications: published, erasures },
      writers: killing ? 3 : 6,
      restMs: 5,
    });
    const managed = { relays, receivers, random: chance, publications: published, erasures, kinds: KINDS, erasable };
    const operator = openOperator({ ...managed, restMs: killing ? 50 : 150 });
    for (const kind of KINDS) for (let i = 0; i < EACH; i++) await operator.make(kind, true);
    for (let i = 0; i < (options.wide ?? WIDE_COUNT); i++) (await operator.make(WIDE, true)).moody = WIDE_MOODY;
    // Between two kills there is time for an attempt or two at each receiver: the failing one must have no backlog of its own.
    const paceMs = { well: killing ? 500 : 300, failing: 10_000 };
    const probes = await openProbes({ operator, publisher, receivers, timeline, paceMs });
    const keyEraser = openKeyEraser({ operator, publisher, erasures, random: chance });
    publisher.begin();
    probes.begin();
    operator.begin();
    keyEraser.begin();

    const scene: Scene = { relays, receivers, random: chance, folder, small, server, clockFile };
    const { faults: all, missing } = killing ? killsFor(storage) : faultsFor(storage, scene);
    const faults = all.filter(({ name }) => options.without?.includes(name) !== true);
    const until = performance.now() + options.seconds * 1_000;
    let done = 0;
    const more = (): boolean => (killing ? done < (options.kills ?? 0) : performance.now() < until);
    while (more() && options.signal?.aborted !== true) {
      // Most kills come while events are taken in and delivered; some right after the start.
      if (killing && chance.chance(0.7)) await busy(publisher);
      await sleep(chance.int(20, killing ? 350 : 600));
      const fault = choose(faults, chance);
      await timeline.during(fault.name, () => fault.act(scene));
      if (!fault.harmless) done++;
      if (killing && done % 50 === 0 && !fault.harmless) say(`${done} kills, ${publisher.acknowledged()} acknowledged`);
    }

    say("all is well again");
    receivers.calm();
    await server?.calm();
    for (const relay of relays) await relay.start();
    await operator.finish();
    await keyEraser.finish();
    if (options.hostile !== false) {
      say("all receivers but one hang");
      await probes.hostile();
      receivers.calm();
    }
    await probes.finish();
    await publisher.finish();
    const leaseMs = server === undefined ? 0 : LEASE_MS;
    say("whatever is due comes to its end");
    await drained(relays, receivers, leaseMs + OVERDUE_MS);
    say("what failed is replayed");
    await probes.replay();
    await drained(relays, receivers, leaseMs + OVERDUE_MS);
    say("records and books are compared");
    await operator.close();
    for (const relay of relays) await relay.stop();
    const { config } = relays[0] as Relay;
    const { ledger } = published;
    const { subjects } = receivers;
    const verdict = await verify({
      ...{ config, ledger, receivers, erasures, subjects, timeline, leaseMs },
      failing: probes.failing,
    });
    return {
      ...verdict,
      violations: [
        ...verdict.violations,
        ...publisher.wrong,
        ...operator.wrong,
        ...keyEraser.wrong,
        ...probes.violations(),
      ],
      storage,
      seed,
      tookMs: Math.round(performance.now() - began),
      faults: timeline.counts(),
      missing,
      accepted: publisher.acknowledged(),
      refused: Object.fromEntries(publisher.refused),
      managed: { ...operator.counts, "keys erased": keyEraser.erased() },
      requests: receivers.requests(),
      waitMs: { undisturbed: middle(probes.waits()), hostile: middle(probes.hostileWaits) },
      failovers: server?.failovers() ?? 0,
    };
  } finally {
    timeline.end();
    for (const relay of relays) await relay.kill();
    await server?.end();
    if (small) await start([findCommand("umount") as string, "-l", folder]).gone;
    await rm(folder, { recursive: true, force: true });
  }
}

/** Until something was acknowledged since now, or for a while. */
async function busy(publisher: Publisher): Promise<void> {
  const before = publisher.acknowledged();
  for (const until = performance.now() + BUSY_MS; performance.now() < until; await sleep(5))
    if (publisher.acknowledged() > before) return;
}

/** A small disk of its own, so that it can be filled. @returns false where that is not allowed */
async function mountSmall(folder: string): Promise<boolean> {
  const mount = findCommand("mount");
  if (process.getuid?.() !== 0 || mount === undefined) return false;
  const made = start([mount, "-t", "tmpfs", "-o", `size=${SMALL_MB}m,mode=0700`, "tmpfs", folder]);
  await made.gone;
  return made.said() === "";
}
