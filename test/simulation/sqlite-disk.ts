/**
 * A disk with the real `sqlite()` on it: its writer, its thread and its reader, on a database in a folder. A batch reaches
 * the thread, and its answer the node, at moments of the world; so a kill falls before a batch, or behind its commit and
 * before anybody hears of it. A commit cut off within itself is judged elsewhere (`test/power-loss`).
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StorageError } from "../../core/model/errors.ts";
import { embedded } from "../../plugins/storage/embedded/storage.ts";
import { sortedMap, type SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { openReader } from "../../plugins/storage/sqlite/reader.ts";
import { startThread, type Thread } from "../../plugins/storage/sqlite/thread.ts";
import type { WorkerAnswer, WorkerStart } from "../../plugins/storage/sqlite/worker-messages.ts";
import { openWriter } from "../../plugins/storage/sqlite/writer.ts";
import { turn } from "../support/clock.ts";
import type { FolderDisk, SimFolder } from "./folder-disk.ts";
import type { Life, World } from "./world.ts";

const MEMORY = "/dev/shm";
const FILE = "relay.db";
const CACHE_KIB = 512;
const SICK = "the simulated storage is sick";
/** The writer collects a batch for fewer turns of the event loop. */
const TURNS = 8;
/** Longest way of a batch to the thread, and of its answer back, ms. */
const LONGEST_WAYS = [1, 20, 400];

interface SqliteDisk extends FolderDisk {
  /** Removes the folder once every thread has ended. */
  leave(): Promise<void>;
}

export async function openSimSqlite(): Promise<SimFolder> {
  const root = realpathSync(mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "relay-sim-")));
  let worlds = 0;
  let disk: SqliteDisk | undefined;
  return {
    enter(world) {
      disk?.crash();
      void disk?.leave();
      return (disk = sqliteDisk(world, join(root, String(++worlds))));
    },
    async [Symbol.asyncDispose]() {
      disk?.crash();
      await disk?.leave();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** The writer has sent what it collects. */
async function collected(): Promise<void> {
  for (let i = 0; i < TURNS; i++) await turn();
}

function sqliteDisk(world: World, root: string): SqliteDisk {
  const { random } = world;
  const longest = random.pick(LONGEST_WAYS);
  let folders = 0;
  let folder = fresh();
  /** Ends what the process that lives has open. */
  let end: (() => Promise<void>) | undefined;
  const ending: Promise<void>[] = [];
  /** What befalls the process at its next batch. */
  let cutting: (() => void) | undefined;
  /** What was read last, while nothing has changed since. */
  let read: SortedMap | undefined;

  function cut(): void {
    const act = cutting;
    cutting = undefined;
    act?.();
  }

  function fresh(): string {
    const made = join(root, String(++folders));
    mkdirSync(made, { recursive: true });
    return made;
  }

  /** The database and its log as they stand, which is what a process that is killed now leaves. */
  function copy(): string {
    const to = fresh();
    for (const name of [FILE, `${FILE}-wal`])
      if (existsSync(join(folder, name))) copyFileSync(join(folder, name), join(to, name));
    return to;
  }

  /** A thread at the end of a slow way. It takes one batch after the other, and answers in that order. */
  function atADistance(life: Life, real: Thread): Thread {
    let taken = 0;
    let heard = 0;
    return {
      get dead() {
        return real.dead;
      },
      ask: (question) =>
        new Promise((resolve) => {
          taken = Math.max(taken, world.now()) + random.next() * longest;
          const answerMs = random.next() * longest;
          const fails = question !== "close" && disk.sick > 0 && random.chance(disk.sick);
          const fault = random.pick(["unavailable", "full", "uncertain"] as const);
          const happens = !fails || (fault === "uncertain" && random.chance(0.5));
          life.after(taken - world.now(), () => {
            if (random.chance(0.3)) cut();
            if (!life.alive()) return;
            read = undefined;
            const answered: Promise<WorkerAnswer> = happens ? real.ask(question) : Promise.resolve({ done: undefined });
            const given = answered.then((answer) => {
              heard = Math.max(heard, world.now() + answerMs);
              cut();
              life.after(heard - world.now(), () => {
                resolve(fails ? { fault, message: SICK } : answer);
                world.hold(collected());
              });
            });
            world.hold(given);
          });
        }),
      end() {
        const over = real.end();
        world.hold(over);
        return over;
      },
    };
  }

  async function begin(life: Life) {
    const path = join(folder, FILE);
    const launch = async (start: WorkerStart) => {
      const { thread, first } = await startThread(start);
      end = thread.end;
      return { thread: atADistance(life, thread), first };
    };
    const writer = await openWriter({ path, cacheKiB: CACHE_KIB }, () => undefined, launch);
    const reader = await openReader(path, CACHE_KIB);
    const endThread = end;
    end = () => {
      reader.close();
      return endThread?.() ?? Promise.resolve();
    };
    const look = async <T>(at: () => T): Promise<T> => {
      if (!life.alive()) return new Promise<T>(() => {});
      if (disk.sick > 0 && random.chance(disk.sick / 2)) throw new StorageError("unavailable", SICK);
      return at();
    };
    return await embedded(
      {
        name: "sqlite",
        durability: "fsync",
        commit(changes) {
          if (!life.alive()) return new Promise(() => {});
          const done = writer.commit(changes);
          world.hold(collected());
          return done;
        },
        getMany: (keys) => look(() => reader.getMany(keys)),
        range: (prefix, options) => look(() => reader.range(prefix, options)),
        count: async (prefix) => reader.count(prefix),
        status: async () => ({}),
        async close() {
          reader.close();
          await writer.close();
        },
      },
      life.clock,
      { window: 64 },
    );
  }

  const disk: SqliteDisk = {
    sick: 0,
    atNextBatch: (act) => void (cutting = act),
    open: (life) =>
      new Promise((resolve, reject) => {
        const answer = (act: () => void): void => void life.after(random.next() * longest, act);
        life.after(0, () => {
          world.hold(
            begin(life).then(
              (storage) => answer(() => resolve(storage)),
              (error: unknown) => answer(() => reject(error as Error)),
            ),
          );
        });
      }),
    crash() {
      if (end === undefined) return;
      // What a dead process goes on to do is done to a folder that nobody opens again.
      const left = folder;
      folder = copy();
      ending.push(end().then(() => rmSync(left, { recursive: true })));
      end = undefined;
    },
    async leave() {
      await Promise.all(ending);
      rmSync(root, { recursive: true, force: true });
    },
    async rows() {
      if (read !== undefined) return read;
      const rows = sortedMap();
      const copied = copy();
      const reader = await openReader(join(copied, FILE), CACHE_KIB);
      for (const { key, value } of reader.range("", { limit: 1_000_000 })) rows.set(key, value);
      reader.close();
      rmSync(copied, { recursive: true });
      return (read = rows);
    },
  };
  return disk;
}
