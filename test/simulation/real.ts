/** What is real in a simulated world, by kind. */
import { openSimFolder, type SimFolder } from "./folder-disk.ts";
import { openSimRedis, type SimRedis } from "./redis-server.ts";
import { openSimSqlite } from "./sqlite-disk.ts";

/**
 * One node on the model of a disk, or with the real `filesystem()` or `sqlite()`; several threads on the model of a disk;
 * several nodes on a model of the shared store, or on a real Redis.
 */
export const KINDS = ["single", "filesystem", "sqlite", "threads", "several", "redis"] as const;
export type SimKind = (typeof KINDS)[number];

export interface SimReal {
  readonly redis?: SimRedis;
  readonly folder?: SimFolder;
}

/** Opens it for as many worlds as follow one another. */
export async function openReal(kind: SimKind): Promise<SimReal & AsyncDisposable> {
  const redis = kind === "redis" ? await openSimRedis() : undefined;
  const open = { filesystem: openSimFolder, sqlite: openSimSqlite }[kind as string];
  const folder = await open?.();
  return {
    redis,
    folder,
    async [Symbol.asyncDispose]() {
      await redis?.[Symbol.asyncDispose]();
      await folder?.[Symbol.asyncDispose]();
    },
  };
}
