/**
 * Stands in for config/module-resolver.ts inside a single executable: `relaybox` in an outside config file is what is built in.
 * There is no file to resolve to, so the modules are registered in memory.
 */
import { createRequire, type LoadHookSync, registerHooks, type ResolveHookSync } from "node:module";
import * as client from "../../core/client/index.ts";
import * as verify from "../../core/signing/verify.ts";
import * as door from "../../config/index.ts";

const HANDED = Symbol.for("relaybox.door");
const DOORS: Readonly<Record<string, object>> = {
  relaybox: door,
  "relaybox/client": client,
  "relaybox/verify": verify,
};
const SCHEME = "relaybox-door:";
/** An executable's own `import()` knows no files; that of a module which came through the hooks does. */
const IMPORTER = `${SCHEME}import`;

let opened = false;

/**
 * Resolves `relaybox` for every file that is loaded from now on: a plug-in may well load a part of itself much later.
 * Until what it returns is called, `configUrl` is read as an ES module, whatever the package.json around it says.
 */
export function resolveOwnModules(configUrl: string): () => void {
  open();
  const format = /\.m?ts$/.test(configUrl) ? "module-typescript" : /\.m?js$/.test(configUrl) ? "module" : undefined;
  if (format === undefined) return () => undefined;
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      return found.url === configUrl ? { ...found, format } : found;
    },
  });
  return () => hooks.deregister();
}

/** Loads a file from the outside as `import` does, top-level await included. */
export function importFile(url: string): Promise<unknown> {
  open();
  const load = createRequire(url)(IMPORTER) as (url: string) => Promise<unknown>;
  return load(url);
}

function open(): void {
  if (opened) return;
  opened = true;
  (globalThis as { [HANDED]?: typeof DOORS })[HANDED] = DOORS;
  registerHooks({ resolve, load });
}

const resolve: ResolveHookSync = (specifier, context, next) => {
  if (specifier === IMPORTER) return { url: specifier, format: "commonjs", shortCircuit: true };
  if (!Object.hasOwn(DOORS, specifier)) return next(specifier, context);
  return { url: SCHEME + specifier, format: "module", shortCircuit: true };
};

const load: LoadHookSync = (url, context, next) => {
  if (url === IMPORTER)
    return { format: "commonjs", source: "module.exports = (url) => import(url);", shortCircuit: true };
  const name = url.startsWith(SCHEME) ? url.slice(SCHEME.length) : undefined;
  const module = name === undefined ? undefined : DOORS[name];
  if (module === undefined) return next(url, context);
  const from = `globalThis[Symbol.for("relaybox.door")][${JSON.stringify(name)}]`;
  const source = `export const { ${Object.keys(module).join(", ")} } = ${from};`;
  return { format: "module", source, shortCircuit: true };
};
