/** Opens the storage that is copied, for a backup or a migration. */
import { FILLING } from "../../model/keys.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Storage } from "../../ports/storage.ts";
import { storedSchema } from "../../runtime/storage-schema.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_REFUSED, ExitError } from "./exit.ts";
import { openStorage } from "./offline.ts";

/** @throws StartError 75 when a relay uses it; ExitError 1 when it is filled by half: the copy would pass for a whole one */
export async function openSource(plan: Plan, around: CliEnvironment): Promise<Storage> {
  const storage = await openStorage(plan, around);
  try {
    await storedSchema(storage);
    if ((await storage.getItem(FILLING)) !== undefined)
      throw new ExitError(
        EX_REFUSED,
        `${plan.storage.name}, which is to be copied, is filled by half: run the restore or migration again to its end`,
      );
    return storage;
  } catch (error) {
    await storage.dispose();
    throw error;
  }
}
