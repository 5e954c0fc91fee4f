/** One simulated life of a relay, made by its seed alone: who starts, what befalls it, and whether it kept its word. */
import type { SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { deeds, REPLAY_MS } from "./actions.ts";
import { checkData, checkErased, checkFinished, FINISHED_MS, noteDone, type Erasure } from "./erasures.ts";
import { simDisk, type SimDisk } from "./disk.ts";
import { checkEnded, matches } from "./ended.ts";
import { HELD, SUBSCRIPTION, DUE } from "../../core/model/schema.ts";
import { scheduleOf } from "../../core/model/subscription.ts";
import { openSimFolder, type FolderDisk, type SimFolder } from "./folder-disk.ts";
import { MOODS, simNet } from "./network.ts";
import { startNode, type NodeTraits, type SimNode } from "./node.ts";
import { checkEnd, checkRows, type KnownSubscription, type Published } from "./oracle.ts";
import { DAMAGED } from "../../core/model/kind.ts";
import { checkOrder } from "./order.ts";
import { checkOverdue, DEADLINE_MS } from "./schedule.ts";
import { openSimRedis, type SimRedis } from "./redis-server.ts";
import { CALL_MS, LEASE_MS, simShared, type SimShared } from "./shared-storage.ts";
import { Violation } from "./violation.ts";
import { simTransforms } from "./transforms.ts";
import { seeded, world, type World } from "./world.ts";

export interface Ran {
  /** Ms of the world. */
  readonly tookMs: number;
  readonly requests: number;
  readonly accepted: number;
  /** Deliveries that were sent in order. */
  readonly turns: number;
  /** The same for the same seed. */
  readonly digest: string;
  readonly story: readonly string[];
}

/** Clocks of nodes are wrong by so much. */
const SKEW_MS = 2_000;
/** After the last thing happened, everything is to be at rest within this. */
const REST_MS = 6 * 3_600_000;

/**
 * One node on the model of a disk, or with the real `filesystem()`; several nodes on a
 * model of the shared store, or on a real Redis.
 */
export type SimKind = "single" | "filesystem" | "several" | "redis";
/** The real parts of a simulated world, by kind. */
export interface SimReal {
  readonly redis?: SimRedis | undefined;
  readonly folder?: SimFolder | undefined;
}

export async function openReal(kind: SimKind): Promise<SimReal & AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  const redis = kind === "redis" ? opened.use(await openSimRedis()) : undefined;
  const folder = kind === "filesystem" ? opened.use(await openSimFolder()) : undefined;
  const all = opened.move();
  return { redis, folder, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/**
 * @param real for the kinds that need it
 * @param telling keeps the story, to be read when a seed fails
 * @throws Violation
 */
export function simulate(seed: number, kind: SimKind, telling = false, real: SimReal = {}): Promise<Ran> {
  return seeded(seed, async () => {
    const made = world(seed, telling);
    try {
      return await life(made, kind, real, seed % 4 === 0);
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      const story = telling ? `\n${made.story.join("\n")}` : "";
      throw new Violation(`seed ${seed} (${kind}): ${error.message}${story}`);
    }
  });
}

/** @param days whether retries wait for days: at last all subscriptions are disabled and enabled, which ends what waits */
async function life(world: World, kind: SimKind, { redis, folder }: SimReal, days: boolean): Promise<Ran> {
  const { random, say } = world;
  const net = simNet(world, kind === "redis" ? ["1", "30", "soon"] : ["1", "30", "600", "soon"]);
  /** One process, in which a lease lasts until its holder ends. */
  const alone = kind === "single" || kind === "filesystem";
  const modelled =
    kind === "single"
      ? simDisk(world, {
          early: random.chance(0.5),
          syncMs: random.pick([1, 20, 400]),
          readMs: random.pick([0, 0, 5]),
        })
      : undefined;
  const disk: SimDisk | FolderDisk | undefined = kind === "filesystem" ? (folder as SimFolder).enter(world) : modelled;
  // How a real server moves on is seen once a second of the world: its waits are shorter, its seeds as many as can be.
  const real = kind === "redis" ? await (redis as SimRedis).enter(world) : undefined;
  const shared: SimShared | undefined = disk === undefined ? (real ?? simShared(world)) : undefined;
  const rowsNow = (): SortedMap | Promise<SortedMap> =>
    disk === undefined ? (shared as SimShared).rows() : typeof disk.rows === "function" ? disk.rows() : disk.rows;
  const transforms = simTransforms(world);
  const traits: NodeTraits = {
    transforms,
    health: random.chance(0.5)
      ? { breakerAfter: 3, breakerPauseMs: 20_000, breakerMaxPauseMs: 120_000, disableAfterMs: 432_000_000 }
      : false,
    delivery: {
      timeoutMs: DEADLINE_MS,
      concurrency: random.pick([2, 8, 512]),
      perSubscription: random.pick([1, 4]),
      holdMs: random.pick([0, 30_000, 600_000]),
    },
    retry: days
      ? scheduleOf([86_400_000, 10, 86_400_000, 5_000])
      : random.chance(0.2)
        ? scheduleOf(kind === "redis" ? [60_000, 10, 5_000, 60_000] : [60_000, 10, 7_200_000, 5_000])
        : {
            attempts: 5,
            firstDelayMs: random.pick([10, 5_000]),
            factor: 4,
            maxDelayMs: kind === "redis" ? 60_000 : 3_600_000,
          },
  };
  // Some lives have crowds: every event to more than one subscription is stored as a wide one, and written by pages.
  const crowds = random.chance(0.3);
  if (crowds) traits.fanout = { perEvent: 1, few: random.pick([0, 1]), page: random.pick([1, 2, 250]) };
  const names = alone ? ["n1"] : ["n1", "n2", "n3"].slice(0, random.int(2, 3));
  const nodes = new Map<string, SimNode>();
  const published = new Map<string, Published>();
  const erasures: Erasure[] = [];
  const subscriptions = new Map<string, KnownSubscription>();
  /** Of these, a rotation was asked for and not answered. */
  const unknownSecret = new Set<string>();
  const forgotten: number[] = [];
  const steps: { readonly at: number; readonly ms: number }[] = [];
  let healed = false;
  let broken: Error | undefined;

  const { publish, subscribe, change, replay, replayAll, skip, renew, erase, eraseKey } = deeds({
    ...{ world, net, nodes, published, subscriptions, erasures, unknownSecret },
    healed: () => healed,
  });

  /** Does something in the world outside, on its own; a violation ends the run. */
  const task = (work: () => Promise<void>): void => {
    work().catch((error: unknown) => (broken ??= error instanceof Error ? error : new Error(String(error))));
  };

  async function start(name: string): Promise<void> {
    for (;;) {
      if (nodes.has(name)) return;
      const own = world.life(name, random.int(-SKEW_MS, SKEW_MS));
      try {
        say(`${name} starts`);
        const storage = await (disk ?? (shared as SimShared)).open(own);
        const node = await startNode(world, own, storage, net, traits);
        if (!own.alive()) return;
        nodes.set(name, node);
        return;
      } catch (error) {
        say(`${name} cannot start: ${String(error)}`);
        own.kill();
        await world.sleep(1_000);
      }
    }
  }

  function crash(name: string): void {
    const node = nodes.get(name);
    if (node === undefined) return;
    say(`${name} is killed`);
    nodes.delete(name);
    node.life.kill();
    disk?.crash();
    if (disk !== undefined && typeof disk.rows !== "function") checkRows(disk.rows);
    world.after(healed ? 0 : random.int(100, 40_000), () => task(() => start(name)));
  }

  async function restart(name: string): Promise<void> {
    const node = nodes.get(name);
    if (node === undefined) return;
    say(`${name} is told to stop`);
    nodes.delete(name);
    // A supervisor waits so long, then kills.
    await Promise.race([node.stop(6_000), world.sleep(30_000)]);
    node.life.kill();
    disk?.crash();
    await start(name);
  }

  function befall(): void {
    const name = random.pick(names);
    const own = nodes.get(name)?.life;
    const subs = [...subscriptions.values()];
    const sub = subs.length === 0 ? undefined : random.pick(subs);
    const n = random.int(1, 100);
    if (n <= 6) {
      for (let i = random.int(1, 3); i > 0; i--) task(erase);
      // In the middle of it, or just after its answer.
      if (random.chance(0.4)) world.after(random.int(0, 50), () => crash(name));
    } else if (n <= 40) for (let i = random.int(1, 4); i > 0; i--) task(publish);
    else if (n <= 50) task(() => change(sub ?? (subs[0] as KnownSubscription)).catch(() => undefined));
    else if (n <= 55) task(replay);
    else if (n <= 56) task(eraseKey);
    else if (n <= 60 && sub !== undefined) task(() => replayAll(sub));
    else if (n <= 62 && sub !== undefined && sub.ordering?.hold === true) task(() => skip(sub.keyId, sub.id));
    else if (n <= 64) task(() => subscribe().catch(() => undefined));
    else if (n <= 74 && sub !== undefined) net.moods.set(sub.id, random.pick(MOODS));
    else if (n <= 82) crash(name);
    else if (n <= 85) task(() => restart(name));
    else if (n <= 88 && own !== undefined) {
      say(`${name} is frozen`);
      own.freeze(world.now() + random.pick([500, 20_000, 60_000, 100_000]));
    } else if (n <= 91 && own !== undefined) {
      say(`the clock of ${name} is stepped`);
      const ms = random.pick([-3_600_000, -2_000, 2_000, 90_000]);
      steps.push({ at: world.now(), ms });
      own.step(ms);
    } else if (disk !== undefined) {
      say("the disk is sick");
      disk.sick = random.pick([0.1, 0.9]);
      world.after(random.int(100, 30_000), () => void (disk.sick = 0));
    } else if (shared !== undefined) {
      if (n === 100 && shared.forgetLeases !== undefined) {
        say("every lease is forgotten");
        forgotten.push(world.now());
        shared.forgetLeases();
        return;
      }
      const how = random.pick(["refused", "hole", "mute"] as const);
      say(`${name} is cut off: ${how}`);
      shared.cut(name, how);
      world.after(random.int(100, 70_000), () => shared.cut(name, "whole"));
    }
  }

  const witness = { erasures, published, subscriptions };
  for (const name of names) await within(start(name));
  for (let i = crowds ? random.int(3, 8) : random.int(1, 3); i > 0; i--)
    await within(subscribe().catch(() => undefined));
  for (let i = random.int(4, 24); i > 0; i--) {
    befall();
    await world.run(world.now() + random.pick([0, 5, 100, 2_000, 30_000, 200_000]), over);
    if (broken !== undefined) throw broken;
    const stored = await rowsNow();
    checkRows(stored);
    noteDone(stored, world.now(), witness);
  }

  say("all is well again");
  healed = true;
  transforms.hostile = false;
  if (disk !== undefined) disk.sick = 0;
  for (const name of names) shared?.cut(name, "whole");
  net.moods.clear();
  for (const sub of subscriptions.keys()) net.moods.set(sub, "well");
  // Requests that were made end, and dead nodes come back.
  await world.run(world.now() + 150_000, over);
  const healedAt = world.now();
  const due = {
    healedAt,
    leaseMs: alone ? 0 : LEASE_MS,
    breakerMs: traits.health === false ? 0 : traits.health.breakerMaxPauseMs,
    replayMs: REPLAY_MS,
    gone: (id: string) => (subscriptions.get(id)?.goneAt ?? Infinity) < Infinity,
    met: new Map<string, number>(),
  };
  const deadline = healedAt + REST_MS;
  const ended = new Map<string, number>();
  let rows = await rowsNow();
  const busy = (): boolean =>
    ["due:", "waiting:", "ending:", "erasing:", "erasekey:"].some((prefix) => rows.count(prefix) > 0);
  while ((busy() || world.now() < healedAt + FINISHED_MS) && world.now() < deadline && broken === undefined) {
    // Also of those whose making was never answered.
    for (const { key, value } of rows.range("held:", { limit: 1_000 }))
      task(() => {
        const held = HELD.read(value);
        return skip(held === DAMAGED ? "" : held.keyId, HELD.id(key).subscriptionId);
      });
    // A delivery that a replay has begun may fail once more before all is well.
    if (days)
      for (const { key, value } of rows.range("subscription:", { limit: 1_000 })) {
        const { keyId, id } = SUBSCRIPTION.id(key);
        const { deletedAt } = SUBSCRIPTION.orThrow(value, key);
        const tried = rows
          .range(`due:${id}:`, { limit: 1_000 })
          .some((row) => DUE.orThrow(row.value, row.key).attempts > 0);
        if (deletedAt === undefined && tried) task(() => renew(keyId, id));
      }
    await world.run(world.now() + 20_000, over);
    rows = await rowsNow();
    checkOverdue({
      rows,
      sent: [...net.sent, ...transforms.failed].toSorted((a, b) => a.sentAt - b.sentAt),
      retry: traits.retry,
      now: world.now(),
      ...due,
    });
    checkEnded(rows, world.now(), ended, due.leaseMs);
    checkFinished(rows, world.now() - healedAt);
    noteDone(rows, world.now(), witness);
  }
  if (broken !== undefined) throw broken;
  checkRows(rows);
  for (const { key, value } of rows.range("subscription:", { limit: 1_000 })) {
    const sub = SUBSCRIPTION.orThrow(value, key);
    const [node] = nodes.values();
    if (sub.deletedAt === undefined && sub.status === "active" && node !== undefined)
      await within(matches(node.parts, sub));
  }
  await checkData(rows);
  noteDone(rows, world.now(), witness);
  const grace = alone ? 0 : CALL_MS;
  checkErased(rows, transforms.begun(net.sent), grace, witness);
  const turns = checkOrder({ rows, erasures, published, subscriptions, sent: net.sent });
  for (const id of unknownSecret) subscriptions.get(id)?.secrets.splice(0);
  checkEnd({
    rows,
    ...witness,
    seen: net.seen,
    failedRuns: transforms.failed,
    alone,
    graceMs: grace,
    retry: traits.retry,
    slackMs: (before, after) =>
      Math.abs(after.offset - before.offset) +
      (alone ? 0 : Math.abs(before.offset)) +
      steps.reduce((sum, { at, ms }) => sum + (at <= after.sentAt && at >= before.sentAt ? Math.abs(ms) : 0), 0),
    interrupted: (first, again) =>
      first.aborted === true ||
      first.node.diedAt() <= again.sentAt ||
      (!alone &&
        (again.sentAt - first.sentAt >= LEASE_MS - CALL_MS ||
          forgotten.some((at) => at >= first.sentAt - CALL_MS && at <= again.sentAt))),
  });
  const accepted = [...published.values()].filter((event) => event.accepted.size > 0).length;
  say(`${turns} turns in order`);
  const digest = `${world.now()} ${net.seen.length} ${accepted} ${random.next()}`;
  for (const { life: one } of nodes.values()) one.kill();
  return { tookMs: world.now(), requests: net.seen.length, accepted, turns, digest, story: world.story };

  function over(): boolean {
    return broken !== undefined;
  }

  /** Runs the world until the work is done. */
  async function within(work: Promise<void>): Promise<void> {
    let done = false;
    const ended = work.finally(() => (done = true));
    await world.run(world.now() + 300_000, () => done || broken !== undefined);
    if (!done) throw new Violation("nothing moves");
    await ended;
  }
}
