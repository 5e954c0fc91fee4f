/** What an executable's bundle consists of: where it begins, what stands in for what, what is left out. */
import { readFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { join } from "node:path";
import type { Plugin } from "rolldown";

/** Our files end so: in a checkout they are TypeScript, in an installed package they are built. */
export const SUFFIX = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
export const ENTRY = "\0relay-entry";

/** The program: the command itself, with the config that is built in. */
export function entry(root: string, config: string | undefined): Plugin {
  return {
    name: "relay-entry",
    resolveId: (id) => (id === ENTRY ? id : undefined),
    load(id) {
      if (id === ENTRY) {
        return `import { main } from ${JSON.stringify(join(root, `core/cli/program${SUFFIX}`))};
main(process.argv.slice(2)).then((code) => { process.exitCode = code; });`;
      }
      if (id !== join(root, `config/built-in${SUFFIX}`) || config === undefined) return undefined;
      return `export { default as builtIn } from ${JSON.stringify(config)};`;
    },
  };
}

/** Inside an executable there is no file for `relaybox` to resolve to: the door is another. */
export function embed(root: string): Plugin {
  return {
    name: "relay-embed",
    async load(id) {
      if (id !== join(root, `config/module-resolver${SUFFIX}`)) return undefined;
      const text = await readFile(join(root, `core/cli/package/embedded-modules${SUFFIX}`), "utf8");
      const code = text.replaceAll('"../../../config/', '"./').replaceAll('"../../', '"../core/');
      return { code, moduleType: SUFFIX === ".ts" ? "ts" : "js" };
    },
  };
}

/** What no executable needs: the builder itself. */
const NEEDLESS = ["rolldown"];
/** Asked for at once but used only for certificates that listhen would make, and ours are files: an empty one will do. */
const HOLLOW = ["node-forge"];
/** The same library without what makes its output pretty, which costs 16 ms at each start; ours is a log. */
const PLAINER: Readonly<Record<string, string>> = { consola: "consola/basic" };

/** Keeps out what would only make a start slow and the file large. */
export const trimmed: Plugin = {
  name: "relay-trimmed",
  resolveId: {
    order: "pre",
    async handler(id, importer) {
      if (HOLLOW.includes(id)) return `\0hollow:${id}`;
      if (NEEDLESS.includes(id)) return `\0absent:${id}`;
      const plainer = Object.hasOwn(PLAINER, id) ? PLAINER[id] : undefined;
      return plainer === undefined ? undefined : this.resolve(plainer, importer, { skipSelf: true });
    },
  },
  load: (id) => (id.startsWith("\0hollow:") ? "module.exports = {};" : undefined),
};

/**
 * Libraries ask for others that are only there sometimes: what is not installed throws when it is asked for, as it would.
 * A config and its own files have no such excuse.
 */
export function missing(root: string): Plugin {
  return {
    name: "relay-missing",
    resolveId: {
      order: "post",
      async handler(id, importer, { custom }) {
        if (/^\0|^node:/.test(id) || isBuiltin(id) || custom !== undefined) return undefined;
        const found = await this.resolve(id, importer, { skipSelf: true });
        if (found !== null && !found.external) return found;
        const library = importer === undefined || /[\\/]node_modules[\\/]/.test(importer) || importer.startsWith(root);
        if (!library) throw new Error(`${importer} imports ${id}, which is not there`);
        return /^[./]|^[A-Za-z]:/.test(id) ? undefined : `\0absent:${id}`;
      },
    },
    load(id) {
      if (!id.startsWith("\0absent:")) return undefined;
      const message = `${id.slice("\0absent:".length)} is not part of this executable`;
      const error = `Object.assign(new Error(${JSON.stringify(message)}), { code: "MODULE_NOT_FOUND" })`;
      return `module.exports = (() => { throw ${error}; })();`;
    },
  };
}
