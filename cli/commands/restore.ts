/** `relay restore <file>`: puts a backup back into an empty storage. */
import { batches, inspect, NoBackup } from "../../core/maintenance/backup.ts";
import { FILLING } from "../../core/model/schema.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { storedSchema } from "../../core/runtime/offline.ts";
import { linesOf } from "./backup.ts";
import { type Command, CONFIG_OPTIONS, JSON_OPTION } from "../support/command.ts";
import { EX_DATAERR, EX_REFUSED, ExitError, usage } from "../support/exit.ts";
import { json } from "../support/output.ts";
import { progressBar } from "../support/progress.ts";
import { loadFor } from "../support/load-config.ts";

const restore: Command = {
  usage: "restore <file>",
  about: "put a backup back into an empty storage, while no relay uses it",
  options: [JSON_OPTION, ...CONFIG_OPTIONS],
  examples: ["relay restore relay-backup.ndjson --data-dir ./data"],
  async run(given, io) {
    const [file = ""] = given.args;
    // The whole file is checked before anything is written.
    const { lines, sha256 } = await inspect(linesOf(file)).catch((error: unknown) => {
      if (error instanceof NoBackup) throw new ExitError(EX_DATAERR, `${file}: ${error.message}`);
      const { code } = error as NodeJS.ErrnoException;
      if (code?.startsWith("Z_")) throw new ExitError(EX_DATAERR, `${file}: it cannot be unpacked (${code})`);
      if (code !== undefined) throw usage(`${file} cannot be read (${code})`);
      throw error;
    });
    const [{ plan }, { openStorage }] = await Promise.all([loadFor(given, io), import("../support/offline.ts")]);
    const storage = await openStorage(plan, io);
    try {
      const filling = `restore ${sha256}`;
      await beginFilling(storage, filling);
      const progress = progressBar(io.stderr, "restored", lines, io.clock.monotonic);
      for await (const changes of batches(linesOf(file))) {
        await storage.commit(changes.filter(({ key }) => key !== FILLING));
        progress.add(changes.length);
      }
      progress.end();
      await storedSchema(storage);
      await storage.commit([{ op: "delete", key: FILLING, if: filling }]);
    } finally {
      await storage.dispose();
    }
    if (given.flag("json")) io.print(json({ file, lines, sha256, storage: plan.storage.name }));
    else io.print(`restored ${lines} records and changes into ${plan.storage.name}`);
    io.say("relay: start it with the master key that it had: keys/master, or RELAY_MASTER_KEY");
  },
};

/**
 * Marks an empty storage as being filled, so that no relay starts on it. Filling goes on where the same mark stands.
 * @throws ExitError 1 when there is something else in it
 */
export async function beginFilling(storage: Storage, mark: string): Promise<void> {
  const was = await storage.getItem(FILLING);
  if (was === mark) return;
  const [first] = await storage.range("", { limit: 1 });
  if (first !== undefined) {
    const why = was === undefined ? "there is something in it" : "another restore or migration was begun there";
    throw new ExitError(EX_REFUSED, `the storage must be empty: ${why}`);
  }
  const change: Change = { op: "put", key: FILLING, value: mark, if: null };
  await storage.commit([change]);
}

export const commands: readonly Command[] = [restore];
