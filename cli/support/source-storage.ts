/** Opens the storage that is copied, for a backup or a migration. */
import { existsSync } from "node:fs";
import { FILLING } from "../../core/model/schema.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { storedSchema } from "../../core/runtime/offline.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_REFUSED, EX_UNAVAILABLE, ExitError } from "./exit.ts";
import { openStorage } from "./offline.ts";

/**
 * Makes no data folder where there is none: a copy of nothing, from the wrong folder, would pass for a good one.
 * @throws StartError 75 when a relay uses it; ExitError 69 when nothing is stored, 1 when it is filled by half
 */
export async function openSource(plan: Plan, io: CliEnvironment): Promise<Storage> {
  refuseMissingFolder(plan);
  const { name } = plan.storage;
  const storage = await openStorage(plan, io);
  try {
    const empty = (await storedSchema(storage)) === 0 && (await storage.range("", { limit: 1 })).length === 0;
    if (empty) throw nothing(`nothing is stored in ${name}, data folder ${plan.dataDir}`);
    if ((await storage.getItem(FILLING)) !== undefined)
      throw new ExitError(
        EX_REFUSED,
        `${name}, which is to be copied, is filled by half: run the restore or migration again to its end`,
      );
    return storage;
  } catch (error) {
    await storage.dispose();
    throw error;
  }
}

const nothing = (why: string): ExitError =>
  new ExitError(EX_UNAVAILABLE, `${why}: name the relay's folder with --data-dir, or its --config`);

/** Opening a storage makes its folder; what only reads must not. @throws ExitError 69 */
export function refuseMissingFolder({ storage, dataDir }: Plan): void {
  if (storage.shared !== true && !existsSync(dataDir)) throw nothing(`there is no data folder ${dataDir}`);
}
