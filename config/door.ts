/** Lets a config file stand anywhere: `relaybox` in it always means this very package, and TypeScript is read as it is. */
import { registerHooks } from "node:module";
import type { RegisterHooksOptions } from "node:module";

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
  const resolve: RegisterHooksOptions["resolve"] = (specifier, context, next) => {
    const door = DOORS[specifier];
    if (door !== undefined) return { url: door, format: built ? "module" : "module-typescript", shortCircuit: true };
    const found = next(specifier, context);
    if (found.url !== configUrl) return found;
    if (/\.m?ts$/.test(configUrl)) return { ...found, format: "module-typescript" };
    return /\.m?js$/.test(configUrl) ? { ...found, format: "module" } : found;
  };
  const hooks = registerHooks({ resolve });
  return () => hooks.deregister();
}
