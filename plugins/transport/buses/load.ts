/** Loads the client of a bus, which is installed only where a config names the bus. */
import { createRequire } from "node:module";
import { isSea } from "node:sea";
import { StartError } from "../../../core/model/errors.ts";
import type { OptionProblem } from "./destination.ts";

const EX_CONFIG = 78;

/** Says which command installs what is missing. */
const advice = (factory: string, packages: readonly string[]): string =>
  `${factory}() needs a package: npm install ${packages.join(" ")}`;

/**
 * Returns a problem of the config when a package is not installed; reads no code of it. An executable has its packages
 * built in, so there only loading tells.
 */
export function clientProblems(factory: string, packages: readonly string[]): OptionProblem[] {
  if (isSea()) return [];
  try {
    const from = createRequire(import.meta.url);
    for (const name of packages) from.resolve(name);
    return [];
  } catch (error) {
    return isMissing(error) ? [{ path: "", message: advice(factory, packages) }] : [];
  }
}

/**
 * Returns what `load` imports. The `import()` stands in the plug-in, with the name as a literal, so that `relay build`
 * bundles it.
 * @throws StartError 78 with the command that installs it, when it is missing
 */
export async function loadClient<T>(factory: string, packages: readonly string[], load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
    throw new StartError(EX_CONFIG, advice(factory, packages), { cause });
  }
}

const isMissing = (error: unknown): boolean =>
  ["MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND"].includes((error as { readonly code?: string }).code ?? "");
