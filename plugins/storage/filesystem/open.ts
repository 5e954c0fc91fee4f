/** Opens the storage of plain files in a folder. */
import { join, resolve } from "node:path";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Storage } from "../../../core/ports/storage.ts";
import { diskRoom } from "../embedded/free-space.ts";
import { lockFolder, type FolderLock } from "../embedded/lock.ts";
import { countByPages, embedded, type EmbeddedOptions, type EmbeddedStore } from "../embedded/storage.ts";
import { openFolder, prepareFolder, type OpenedStore } from "./open-store.ts";

type Options = EmbeddedOptions & { readonly dir?: string; readonly perFolder?: number };

/** @throws StartError 75 when another process uses the folder */
export async function openFilesystem(options: Options, ctx: PluginContext): Promise<Storage> {
  const given = options.dir === undefined ? join(ctx.dataDir, "files") : resolve(ctx.configDir, options.dir);
  const dir = prepareFolder(given, ctx.log);
  const lock = await lockFolder(dir);
  let opened: OpenedStore | undefined;
  try {
    opened = await openFolder(dir, ctx.clock, ctx.log, options.perFolder ?? 1_000);
    return await embedded(asStore(dir, opened, lock), ctx.clock, options);
  } catch (error) {
    await opened?.store.abandon();
    lock.release();
    throw error;
  }
}

function asStore(dir: string, { store, files, journal, quarantine }: OpenedStore, lock: FolderLock): EmbeddedStore {
  const range: EmbeddedStore["range"] = (prefix, options) => store.range(prefix, options);
  return {
    name: "filesystem",
    durability: "fsync",
    commit: (changes) => store.commit(changes),
    getMany: (keys) => Promise.all(keys.map((key) => store.get(key))),
    range,
    // The journal has more than the files while a full disk keeps these from being written.
    count: (prefix) => (store.backlog.keys === 0 ? files.count(prefix) : countByPages(range, prefix)),
    lateCount: true,
    room: () => diskRoom(dir),
    async status() {
      const { freeBytes } = await diskRoom(dir);
      const { keys, bytes } = store.backlog;
      const facts = {
        folders: files.leaves.count,
        journalBytes: journal.bytes,
        behindKeys: keys,
        behindBytes: bytes,
      };
      return { ...facts, quarantined: quarantine.count, freeBytes };
    },
    async close() {
      await store.close();
      lock.release();
    },
  };
}
