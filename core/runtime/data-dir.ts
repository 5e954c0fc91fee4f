/** The folder of the relay's own files: there before anything is put into it, also where all keys are given. */
import { StartError } from "../model/errors.ts";
import { makeDurableFolder } from "../ports/folder.ts";

/** Makes it (0700) where it is not there, so that no power cut takes it away; one that is there stays as it is. @throws StartError 78 */
export function makeDataDir(dataDir: string): void {
  try {
    makeDurableFolder(dataDir);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown";
    const what = "give a folder that the relay may write to (dataDir, RELAY_DATA_DIR)";
    throw new StartError(78, `the data folder ${dataDir} cannot be made (${code}): ${what}`, { cause });
  }
}
