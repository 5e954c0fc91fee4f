/** Every storage that is shipped, each on a folder, prefix or memory of its own, on one clock that tests move. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import memoryDriver from "unstorage/drivers/memory";
import fsDriver from "unstorage/drivers/fs-lite";
import type { Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { redisAt } from "../../plugins/storage/redis.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { unstorage } from "../../plugins/storage/unstorage.ts";
import { besideDisk, type TestClock } from "./clock.ts";
import { needs } from "./needs.ts";
import { pluginContext } from "./plugin-context.ts";
import { startRedis, type RedisServer } from "./redis.ts";

export interface AnyStorage {
  readonly name: string;
  /** Why it cannot be had here. */
  readonly missing?: string;
  /** A fresh one. What `reopen` gives is the same data, read anew; absent where it ends with the process. */
  open(clock: TestClock): Promise<{ readonly storage: Storage; readonly reopen?: () => Promise<Storage> }>;
  close(): Promise<void>;
}

function inFolders(name: string, at: (dir: string) => ReturnType<typeof sqlite>): AnyStorage {
  const dirs: string[] = [];
  return {
    name,
    async open(clock) {
      const dir = await mkdtemp(join(tmpdir(), "relay-any-storage-"));
      dirs.push(dir);
      const open = async (): Promise<Storage> => at(dir).setup(pluginContext(besideDisk(clock), dir));
      const storage = await open();
      const reopen = async (): Promise<Storage> => {
        await storage.dispose();
        return open();
      };
      return { storage, reopen };
    },
    async close() {
      for (const dir of dirs.splice(0)) await rm(dir, { recursive: true, force: true });
    },
  };
}

function onRedis(): AnyStorage {
  let server: RedisServer | undefined;
  let made = 0;
  return {
    name: "redis()",
    missing: needs("redis"),
    async open(clock) {
      server ??= await startRedis();
      const { url } = server;
      const prefix = `any${++made}`;
      const plugin = redisAt({ url, prefix, leaseMs: 600_000 }, clock.now);
      const open = async (): Promise<Storage> => plugin.setup(pluginContext(clock, "/nonexistent"));
      const storage = await open();
      const reopen = async (): Promise<Storage> => {
        await storage.dispose();
        return open();
      };
      return { storage, reopen };
    },
    async close() {
      await server?.[Symbol.asyncDispose]();
      server = undefined;
    },
  };
}

const inMemory = (name: string, plugin: () => ReturnType<typeof memory>): AnyStorage => ({
  name,
  open: async (clock) => ({ storage: await plugin().setup(pluginContext(clock, "/nonexistent")) }),
  close: () => Promise.resolve(),
});

export const everyStorage = (): readonly AnyStorage[] => [
  inMemory("memory()", () => memory()),
  inMemory("unstorage(memory)", () => unstorage(memoryDriver())),
  inFolders("sqlite()", (dir) => sqlite({ dir })),
  inFolders("filesystem()", (dir) => filesystem({ dir })),
  inFolders("unstorage(fs-lite)", (base) => unstorage(fsDriver({ base }))),
  onRedis(),
];
