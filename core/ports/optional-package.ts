/** Loads packages that are installed only where a config needs them, such as the client of a broker. */
import { createRequire } from "node:module";
import { getAssetKeys, isSea } from "node:sea";
import { StartError } from "../model/errors.ts";
import { packageAsset } from "../lib/package-asset.ts";
import type { FieldError } from "../model/problem.ts";

const EX_CONFIG = 78;

/**
 * Returns a problem of the config when one of the packages is not installed, or not part of this executable; reads no code
 * of them.
 * @param factory for people: `fromNats`; words stand as they are
 */
export function packageProblems(factory: string, packages: readonly string[]): readonly FieldError[] {
  return packages.every(isThere) ? [] : [{ path: "", message: advice(factory, packages) }];
}

/**
 * Returns what `load` imports. The `import()` stands in the plug-in, with the name as a literal, so that `relay build`
 * bundles it.
 * @throws StartError 78 with the command that installs the packages, when one is missing
 */
export async function loadPackages<T>(
  factory: string,
  packages: readonly string[],
  load: () => Promise<T>,
): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
    throw new StartError(EX_CONFIG, advice(factory, packages), { cause });
  }
}

/** Says which command installs what is missing. What an executable has inside was there when it was built. */
const advice = (factory: string, packages: readonly string[]): string =>
  `${factory.includes(" ") ? factory : `${factory}()`} needs a package: npm install ${packages.join(" ")}${isSea() ? ", then build the executable anew" : ""}`;

function isThere(name: string): boolean {
  if (isSea()) return getAssetKeys().includes(packageAsset(name));
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch (error) {
    return !isMissing(error);
  }
}

const isMissing = (error: unknown): boolean =>
  ["MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND"].includes((error as { readonly code?: string }).code ?? "");
