/**
 * Stands in for config/door.ts inside a single executable: `relaybox` in an outside config file is what is built in.
 * There is no file to resolve to, so the names are handed over in memory.
 */
import { registerHooks } from "node:module";
import type { LoadHookSync, ResolveHookSync } from "node:module";
import * as verify from "../../signing/verify.ts";
import * as door from "../../../config/index.ts";

const HANDED = Symbol.for("relaybox.door");
const DOORS: Readonly<Record<string, object>> = { relaybox: door, "relaybox/verify": verify };

/** Begins to resolve `relaybox`, and to read `configUrl` as an ES module. Returns what ends it. */
export function openDoor(configUrl: string): () => void {
  (globalThis as { [HANDED]?: typeof DOORS })[HANDED] = DOORS;
  const resolve: ResolveHookSync = (specifier, context, next) => {
    if (DOORS[specifier] !== undefined)
      return { url: `relaybox-door:${specifier}`, format: "module", shortCircuit: true };
    const found = next(specifier, context);
    if (found.url !== configUrl) return found;
    if (/\.m?ts$/.test(configUrl)) return { ...found, format: "module-typescript" };
    return /\.m?js$/.test(configUrl) ? { ...found, format: "module" } : found;
  };
  const load: LoadHookSync = (url, context, next) => {
    const name = url.startsWith("relaybox-door:") ? url.slice("relaybox-door:".length) : undefined;
    const module = name === undefined ? undefined : DOORS[name];
    if (module === undefined) return next(url, context);
    const from = `globalThis[Symbol.for("relaybox.door")][${JSON.stringify(name)}]`;
    const source = `export const { ${Object.keys(module).join(", ")} } = ${from};`;
    return { format: "module", source, shortCircuit: true };
  };
  const hooks = registerHooks({ resolve, load });
  return () => hooks.deregister();
}
