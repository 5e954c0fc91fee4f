/** Makes the folder of the relay's own files before anything is written to it. */
import { StartError } from "../model/errors.ts";
import { makeDurableFolder } from "../ports/folder.ts";

/** Makes the folder (mode 0700), durably; an existing one stays as it is. @throws StartError 78 */
export function makeDataDir(dataDir: string): void {
  try {
    makeDurableFolder(dataDir);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown";
    const what = "give a folder that the relay may write to (dataDir, RELAY_DATA_DIR)";
    throw new StartError(78, `the data folder ${dataDir} cannot be made (${code}): ${what}`, { cause });
  }
}
