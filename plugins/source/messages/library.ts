/** Loads the client of an upstream system, which is installed only where a config needs it. */
import { createRequire } from "node:module";
import { getAssetKeys, isSea } from "node:sea";
import { StartError } from "../../../core/model/errors.ts";
import { packageAsset } from "../../../core/model/package-asset.ts";
import type { FieldError } from "../../../core/model/problem.ts";

/** Says which command installs what is missing. What an executable has inside was there when it was built. */
const advice = (source: string, install: string): string =>
  `${source} needs a package: npm install ${install}${isSea() ? ", then build the executable anew" : ""}`;

/**
 * Returns a problem of the config when a package is not installed, or not part of this executable; reads no code of it.
 * @param source the factory, for people: `fromPostgres()`
 * @param from `import.meta.url` of the plug-in
 * @param install what `npm install` is given, when it is more than the package
 */
export function libraryProblems(source: string, from: string, name: string, install = name): readonly FieldError[] {
  return isThere(from, name) ? [] : [{ path: "", message: advice(source, install) }];
}

function isThere(from: string, name: string): boolean {
  if (isSea()) return getAssetKeys().includes(packageAsset(name));
  try {
    createRequire(from).resolve(name);
    return true;
  } catch (error) {
    return !isMissing(error);
  }
}

/**
 * Loads a package. The `import()` stands in the plug-in, with the name as a literal, so that `relay build` bundles it.
 * @throws StartError 78 when it is not installed
 */
export async function library<T>(source: string, install: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if (isMissing(cause)) throw new StartError(78, advice(source, install), { cause });
    throw cause;
  }
}

const isMissing = (error: unknown): boolean =>
  ["MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND"].includes((error as { readonly code?: string }).code ?? "");
