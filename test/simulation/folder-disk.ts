/**
 * A disk with the real `filesystem()` on it: its calls really happen, in a folder, at moments of the world. Each takes some
 * time, may fail, and does not happen any more once its process is killed; so a kill falls between any two of them.
 * Power cuts are judged elsewhere (`test/power-loss`): here what was written stays.
 */
import * as sync from "node:fs";
import { existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, renameSync, rmSync } from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Storage } from "../../core/ports/storage.ts";
import { sortedMap, type SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import type { Life, World } from "./world.ts";

/** One folder for all worlds, one world after the other. */
export interface SimFolder extends AsyncDisposable {
  /** Empty, for the next world. */
  enter(world: World): FolderDisk;
}

export interface FolderDisk {
  /** Resolves to what a process that started now would read. */
  rows(): Promise<SortedMap>;
  open(life: Life): Promise<Storage>;
  /** The process is gone; what it wrote stays. */
  crash(): void;
  /** Share of calls that fail while the disk is sick. */
  sick: number;
}

type Call = (...args: unknown[]) => Promise<unknown>;

const promises = createRequire(import.meta.url)("node:fs/promises") as Record<string, Call>;
/** The calls that `filesystem()` makes; the ones that wait for nothing happen at once. */
const CALLS = ["open", "rename", "unlink", "mkdir", "readdir", "rmdir", "readFile", "statfs"] as const;
/** Those that leave the folder as it is. */
const READS = new Set(["readdir", "readFile", "statfs", "read", "stat", "sync", "datasync", "close"]);
const LOCK = "lock";
const MEMORY = "/dev/shm";

export async function openSimFolder(): Promise<SimFolder> {
  // The lock of a folder loads it when it is first needed, which takes however long it takes.
  await import("node:sqlite");
  // In memory where there is such a folder: what a sync is worth is not judged here.
  const root = realpathSync(mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "relay-sim-")));
  let route: (path: unknown) => ((name: string, act: Call, args: unknown[]) => Promise<unknown>) | undefined = () =>
    undefined;
  const real = new Map(CALLS.map((name) => [name, promises[name] as Call]));
  for (const [name, act] of real) promises[name] = (...args) => route(args[0])?.(name, act, args) ?? atOnce(name, args);
  syncBuiltinESMExports();
  let worlds = 0;
  let disk: FolderDisk | undefined;
  return {
    enter(world) {
      disk?.crash();
      const next = folderDisk(world, join(root, String(++worlds)));
      route = next.route;
      return (disk = next);
    },
    async [Symbol.asyncDispose]() {
      disk?.crash();
      for (const [name, act] of real) promises[name] = act;
      syncBuiltinESMExports();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** Of a look at the folder: happens on this thread, which is several times as fast as the pool of threads. */
async function atOnce(name: string, args: unknown[]): Promise<unknown> {
  const result = (sync as unknown as Record<string, (...args: unknown[]) => unknown>)[`${name}Sync`]?.(...args);
  return name === "open" ? openNow(result as number) : result;
}

/** The file of a look. Nothing is synced, as in every life. */
const openNow = (fd: number) => ({
  readFile: async (encoding: BufferEncoding) => sync.readFileSync(fd, encoding),
  writeFile: async (text: string) => sync.writeFileSync(fd, text),
  read: async (into: Uint8Array, at: number, length: number, from: number) => ({
    bytesRead: sync.readSync(fd, into, at, length, from),
  }),
  write: async (bytes: Uint8Array, at: number, length: number, to: number) => ({
    bytesWritten: sync.writeSync(fd, bytes, at, length, to),
  }),
  stat: async () => sync.fstatSync(fd),
  truncate: async (length: number) => sync.ftruncateSync(fd, length),
  sync: async () => {},
  datasync: async () => {},
  close: async () => sync.closeSync(fd),
  [Symbol.asyncDispose]: async () => sync.closeSync(fd),
});

/** Longest time of one call, ms. */
const LONGEST_CALLS = [0.5, 20];

function folderDisk(world: World, root: string) {
  const { random } = world;
  const longest = random.pick(LONGEST_CALLS);
  const owners = new Map<string, Life>();
  /** Open files of the process that lives. */
  const files = new Set<Record<string, Call>>();
  let lives = 0;
  let dir: string | undefined;
  /** The rows that were read last, while nothing has changed since. */
  let read: SortedMap | undefined;

  /** One call of a process: it begins, it happens, its answer arrives. */
  function call(
    life: Life,
    name: string,
    act: () => Promise<unknown>,
    half?: () => Promise<unknown>,
  ): Promise<unknown> {
    if (!life.alive()) return new Promise(() => {});
    return new Promise((resolve, reject) => {
      life.after(random.next() * longest, () => {
        const fails = disk.sick > 0 && name !== "close" && random.chance(disk.sick);
        const error = fails ? Object.assign(new Error(name), { code: random.pick(["EIO", "ENOSPC"]) }) : undefined;
        // Drawn before the work: how long that really takes decides nothing.
        const answerMs = random.next() * longest;
        if (!READS.has(name)) read = undefined;
        const work = error === undefined ? act() : (half?.() ?? Promise.resolve());
        const answered = work
          .finally(() => READS.has(name) || (read = undefined))
          .then(
            (value) => () => (error === undefined ? resolve(value) : reject(error)),
            (failure: unknown) => () => reject(failure as Error),
          );
        world.hold(answered.then((answer) => void life.after(answerMs, answer)));
      });
    });
  }

  /** An open file of a process. Nothing is synced: what was written stays. */
  function fileOf(life: Life, handle: Record<string, Call>): unknown {
    files.add(handle);
    return new Proxy(handle, {
      get(target, name) {
        const act = target[name as string];
        if (typeof act !== "function" || typeof name === "symbol") return act;
        return (...args: unknown[]) => {
          const run = (): Promise<unknown> => {
            if (name === "close") files.delete(handle);
            return name === "sync" || name === "datasync" ? Promise.resolve() : act.apply(target, args);
          };
          const [bytes, from, length, at] = args as [Uint8Array, number, number, number];
          const half = name === "write" ? () => act.call(target, bytes, from, length >> 1, at) : undefined;
          return call(life, name, run, half);
        };
      },
    });
  }

  const disk: FolderDisk & { route(path: unknown): ReturnType<typeof through> | undefined } = {
    sick: 0,
    route(path) {
      const owner = [...owners].find(([folder]) => path === folder || String(path).startsWith(`${folder}/`));
      return owner === undefined ? undefined : through(owner[1]);
    },
    async open(life) {
      const next = join(root, String(++lives));
      if (dir !== undefined) moveTo(dir, next);
      owners.set((dir = next), life);
      const storage = await filesystem({ dir }).setup(pluginContext(life.clock, root));
      return storage;
    },
    crash() {
      // Later deeds of a dead process never happen; its open files are closed for it.
      for (const file of files) void file["close"]?.call(file);
      files.clear();
    },
    async rows() {
      if (read !== undefined) return read;
      const rows = sortedMap();
      if (dir === undefined) return rows;
      const copy = join(root, `look-${++lives}`);
      // A start replaces and removes files, but writes to none that is there other bytes than it has.
      linkAll(dir, copy);
      const storage = await filesystem({ dir: copy }).setup(pluginContext(testClock(), root));
      for (const { key, value } of await storage.range("", { limit: 1_000_000 })) rows.set(key, value);
      await storage.dispose();
      rmSync(copy, { recursive: true });
      return (read = rows);
    },
  };

  const through =
    (life: Life) =>
    (name: string, act: Call, args: unknown[]): Promise<unknown> =>
      call(life, name, async () => {
        const result = await act.apply(promises, args);
        return name === "open" ? fileOf(life, result as Record<string, Call>) : result;
      });

  return disk;
}

function linkAll(from: string, to: string): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [here, there] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkAll(here, there);
    else if (entry.name !== LOCK) linkSync(here, there);
  }
}

/** The folder as the next process finds it, whose lock nobody holds. */
function moveTo(from: string, to: string): void {
  renameSync(from, to);
  rmSync(join(to, LOCK));
}
