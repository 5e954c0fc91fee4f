/** Lets a config file stand anywhere: `relaybox` in it always means this very package, and TypeScript is read as it is. */
import { registerHooks } from "node:module";

const built = !import.meta.url.endsWith(".ts");
const own = (path: string): string => new URL(built ? path.replace(/\.ts$/, ".js") : path, import.meta.url).href;

const DOORS: Readonly<Record<string, string>> = {
  relaybox: own("./index.ts"),
  "relaybox/verify": own("../core/signing/verify.ts"),
  "relaybox/conformance": own("../test/conformance/index.ts"),
};

/**
 * Begins to resolve `relaybox` for every file that is loaded from now on, and to read `configUrl` as an ES module
 * whatever the package.json around it says. Returns what ends it.
 */
export function openDoor(configUrl: string): () => void {
  const format = /\.m?ts$/.test(configUrl) ? "module-typescript" : /\.m?js$/.test(configUrl) ? "module" : undefined;
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      const door = DOORS[specifier];
      if (door !== undefined) return { url: door, format: built ? "module" : "module-typescript", shortCircuit: true };
      const found = next(specifier, context);
      return found.url === configUrl && format !== undefined ? { ...found, format } : found;
    },
    load: (url, context, next) =>
      next(url, url === configUrl && format !== undefined ? { ...context, format } : context),
  });
  return () => hooks.deregister();
}
