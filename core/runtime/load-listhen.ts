/** Loads listhen without what only its certificates need. */
import { registerHooks } from "node:module";

/** Makes certificates, in 40 files that take 3 MB. The relay reads its certificate from files. */
const NEEDLESS = "node-forge";
const NOTHING = "data:text/javascript,export default undefined";

export async function loadListhen(): Promise<typeof import("listhen")> {
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === NEEDLESS ? { url: NOTHING, format: "module", shortCircuit: true } : next(specifier, context),
  });
  try {
    return await import("listhen");
  } finally {
    hooks.deregister();
  }
}
