/** The folder of the relay's own files: there before anything is put into it, also where all keys are given. */
import { mkdir } from "node:fs/promises";
import { StartError } from "../model/errors.ts";

/** Makes it (0700) where it is not there; one that is there stays as it is. @throws StartError 78 */
export async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown";
    const what = "give a folder that the relay may write to (dataDir, RELAY_DATA_DIR)";
    throw new StartError(78, `the data folder ${dataDir} cannot be made (${code}): ${what}`, { cause });
  }
}
