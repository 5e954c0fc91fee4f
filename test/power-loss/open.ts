/** The storages as these tests open them. */
import type { PluginContext } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import type { StorageName } from "../support/storage-child.ts";

export async function openStorage(name: StorageName, dir: string, ctx: PluginContext): Promise<Storage> {
  return name === "sqlite" ? sqlite({ dir }).setup(ctx) : filesystem({ dir }).setup(ctx);
}
