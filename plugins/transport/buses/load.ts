/** Loads the client of a bus, which is installed only where a config names the bus. */
import { createRequire } from "node:module";
import { getAssetKeys, isSea } from "node:sea";
import { StartError } from "../../../core/model/errors.ts";
import { packageAsset } from "../../../core/model/package-asset.ts";
import type { OptionProblem } from "./destination.ts";

const EX_CONFIG = 78;

/** Says which command installs what is missing. What an executable has inside was there when it was built. */
const advice = (factory: string, packages: readonly string[]): string =>
  `${factory}() needs a package: npm install ${packages.join(" ")}${isSea() ? ", then build the executable anew" : ""}`;

/**
 * Returns a problem of the config when a package is not installed, or not part of this executable; reads no code of it.
 */
export function clientProblems(factory: string, packages: readonly string[]): OptionProblem[] {
  return packages.every(isThere) ? [] : [{ path: "", message: advice(factory, packages) }];
}

function isThere(name: string): boolean {
  if (isSea()) return getAssetKeys().includes(packageAsset(name));
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch (error) {
    return !isMissing(error);
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
