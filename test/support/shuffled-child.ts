/**
 * A process that fills one shelf of a filesystem folder out of order, so that its folders must be split, for tests that
 * kill it meanwhile: `node shuffled-child.ts <folder> <from> <to> <count>`, a slice of so many keys. Says "full" when all is acknowledged.
 */
import { writeSync } from "node:fs";
import { systemClock } from "../../core/runtime/clock.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { pluginContext } from "./plugin-context.ts";

/** Every key once, far from any order. */
export const shuffled = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => `type:${String((i * 7_919) % count).padStart(6, "0")}`);

if (import.meta.main) {
  const [folder = "", from = "0", to = "0", count = "0"] = process.argv.slice(2);
  const storage = await filesystem({ dir: folder }).setup(pluginContext(systemClock(), folder));
  const keys = shuffled(Number(count)).slice(Number(from), Number(to));
  await Promise.all(keys.map((key) => storage.commit([{ op: "put", key, value: `v ${key}` }])));
  writeSync(1, "full\n");
  await storage.dispose();
}
