/** Loads the client of a bus, which is installed only where a config names the bus. */
import { StartError } from "../../../core/model/errors.ts";

const EX_CONFIG = 78;

/**
 * Returns what `load` imports.
 * @param packages with the versions that are tested: `rabbitmq-client@5.0.8`
 * @throws StartError 78 with the command that installs them, when one is missing
 */
export async function loadClient<T>(factory: string, packages: readonly string[], load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    const command = `npm install ${packages.join(" ")}`;
    throw new StartError(EX_CONFIG, `${factory}() needs a client that is not installed: ${command}`, { cause });
  }
}
