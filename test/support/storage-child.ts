/**
 * A process that commits to a storage's folder and says on stdout what was acknowledged, so that tests can kill it.
 *
 * `node storage-child.ts <folder> <first> <count> <writers> [hold]`: step n commits an event with its due line and says
 * `a n`, then a delivery in place of the due line and says `b n`; a refused commit is `x n <fault>`. `hold` keeps the
 * process, and so the folder, until its stdin ends. `TEST_STORAGE` names the storage; sqlite when it is not set.
 */
import { writeSync } from "node:fs";
import { StartError, StorageError } from "../../core/model/errors.ts";
import type { Change } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { pluginContext } from "./plugin-context.ts";

/** Storages in a folder. */
export const STORAGES = { sqlite, filesystem };
export type StorageName = keyof typeof STORAGES;

export const name = (n: number): string => String(n).padStart(6, "0");
export const accept = (n: number): readonly Change[] => [
  { op: "put", key: `event:k:${name(n)}`, value: `${n}`.padEnd(600, "e") },
  { op: "put", key: `due:s:${name(n)}`, value: "k 0 0 0" },
];
export const end = (n: number): readonly Change[] => [
  { op: "put", key: `delivery:s:${name(n)}`, value: `${n}`.padEnd(200, "d") },
  { op: "delete", key: `due:s:${name(n)}` },
];

const say = (line: string): void => void writeSync(1, `${line}\n`);

async function main([folder = "", first = "0", count = "0", writers = "1", hold]: readonly string[]): Promise<void> {
  const plugin = STORAGES[(process.env["TEST_STORAGE"] ?? "sqlite") as StorageName]();
  const storage = await plugin.setup(pluginContext(systemClock(), folder));
  say("open");
  const last = Number(first) + Number(count);
  let next = Number(first);
  const attempt = async (label: string, n: number, changes: readonly Change[]): Promise<boolean> => {
    try {
      await storage.commit(changes);
      say(`${label} ${n}`);
      return true;
    } catch (error) {
      say(`x ${n} ${error instanceof StorageError ? error.fault : String(error)}`);
      return false;
    }
  };
  const write = async (): Promise<void> => {
    for (let n = next++; n < last; n = next++) if (await attempt("a", n, accept(n))) await attempt("b", n, end(n));
  };
  await Promise.all(Array.from({ length: Number(writers) }, write));
  if (hold !== undefined) await new Promise((resolve) => process.stdin.on("end", resolve).resume());
  await storage.dispose();
  say("closed");
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = error.exitCode;
  }
}
