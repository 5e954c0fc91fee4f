/** Resolves `relaybox` in a config file to this package, wherever the file stands, and lets Node read it as TypeScript. */
import { registerHooks } from "node:module";

const built = !import.meta.url.endsWith(".ts");
const own = (path: string): string => new URL(built ? path.replace(/\.ts$/, ".js") : path, import.meta.url).href;

const DOORS: Readonly<Record<string, string>> = {
  relaybox: own("./index.ts"),
  "relaybox/client": own("../core/client/index.ts"),
  "relaybox/verify": own("../core/signing/verify.ts"),
  "relaybox/conformance": own("../test/conformance/index.ts"),
};

let opened = false;

/**
 * Resolves `relaybox` for every file that is loaded from now on: a plug-in may well load a part of itself much later.
 * Until what it returns is called, `configUrl` is read as an ES module, whatever the package.json around it says.
 */
export function resolveOwnModules(configUrl: string): () => void {
  if (!opened) registerHooks({ resolve: (specifier, context, next) => doorFor(specifier) ?? next(specifier, context) });
  opened = true;
  const format = /\.m?ts$/.test(configUrl) ? "module-typescript" : /\.m?js$/.test(configUrl) ? "module" : undefined;
  if (format === undefined) return () => undefined;
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      return found.url === configUrl ? { ...found, format } : found;
    },
    load: (url, context, next) => next(url, url === configUrl ? { ...context, format } : context),
  });
  return () => hooks.deregister();
}

/** Loads a file as `import` does, top-level await included. */
export const importFile = (url: string): Promise<unknown> => import(url) as Promise<unknown>;

const doorFor = (specifier: string): { url: string; format: string; shortCircuit: true } | undefined => {
  const url = Object.hasOwn(DOORS, specifier) ? DOORS[specifier] : undefined;
  return url === undefined ? undefined : { url, format: built ? "module" : "module-typescript", shortCircuit: true };
};
