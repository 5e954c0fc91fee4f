/** Rolldown plug-ins of an executable's bundle: the entry, replaced modules, and modules that are left out. */
import { readFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { dirname, join } from "node:path";
import type { Plugin } from "rolldown";
import { TRANSFORMS_ARGUMENT } from "../support/transform-processes.ts";

/** The suffix of our own files: TypeScript in a checkout, JavaScript in an installed package. */
export const SUFFIX = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
export const ENTRY = "\0relay-entry";

/** The program: the command itself, with the config that is built in. */
export function entry(root: string, config: string | undefined): Plugin {
  return {
    name: "relay-entry",
    resolveId: (id) => (id === ENTRY ? id : undefined),
    load(id) {
      if (id === ENTRY) {
        const file = (path: string): string => JSON.stringify(join(root, `cli/${path}${SUFFIX}`));
        return `import { endWith, main } from ${file("program")};
if (process.argv[2] === "${TRANSFORMS_ARGUMENT}" && process.connected) import(${file("support/transform-entry")});
else main(process.argv.slice(2)).then(endWith);`;
      }
      if (id !== join(root, `config/built-in${SUFFIX}`) || config === undefined) return undefined;
      return `export { default as builtIn } from ${JSON.stringify(config)};`;
    },
  };
}

/** Replaces the module resolver: inside an executable there is no file for `relaybox` to resolve to. */
export function embed(root: string): Plugin {
  return {
    name: "relay-embed",
    async load(id) {
      if (id !== join(root, `config/module-resolver${SUFFIX}`)) return undefined;
      const text = await readFile(join(root, `cli/package/embedded-modules${SUFFIX}`), "utf8");
      const code = text.replaceAll('"../../config/', '"./').replaceAll('"../../core/', '"../core/');
      return { code, moduleType: SUFFIX === ".ts" ? "ts" : "js" };
    },
  };
}

/** A file that a module reads beside itself when it is loaded. */
const READ = /readFileSync\(new URL\((['"])(\.{1,2}\/[^'"]+)\1, import\.meta\.url\)\)/g;

/** Puts the files that libraries read beside themselves into the bundle: an executable has no folder of libraries. */
export const inlined: Plugin = {
  name: "relay-inlined",
  transform: {
    filter: { id: /[\\/]node_modules[\\/]/, code: /readFileSync\(new URL\(/ },
    async handler(code, id) {
      let out = code;
      for (const [read, , path = ""] of code.matchAll(READ)) {
        const bytes = await readFile(join(dirname(id), path));
        out = out.replace(read, () => `Buffer.from(${JSON.stringify(bytes.toString("base64"))}, "base64")`);
      }
      return out === code ? undefined : { code: out };
    },
  },
};

/** The bundler itself: an executable does not build. */
const NEEDLESS = ["rolldown"];
/** Replaced by an empty module: listhen loads it at once, but uses it only to make certificates, which the relay reads from files. */
const HOLLOW = ["node-forge"];
/** Replaced by the same library without pretty output, which costs 16 ms at each start. */
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
 * Lets a library ask for an optional package: one that is not installed throws when it is loaded, as it would without a
 * bundle. In a config and its own files a missing import is an error of the build.
 */
export function missing(root: string): Plugin {
  return {
    name: "relay-missing",
    resolveId: {
      order: "post",
      async handler(id, importer, { custom, kind }) {
        if (/^\0|^node:/.test(id) || isBuiltin(id) || custom !== undefined) return undefined;
        // A package may have one file for `import` and another for `require`.
        const found = await this.resolve(id, importer, { kind, skipSelf: true });
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
