/**
 * Keeps the clients of other systems (`fromKafka`, `toNats` …) in files of their own inside an executable. Together they are
 * nearly as large as the relay itself, and the text of the program stays in memory; these are read when a config uses them.
 */
import { readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import type { Plugin } from "rolldown";
import { packageAsset } from "../../core/lib/package-asset.ts";
import { SUFFIX } from "./pieces.ts";

/** Plug-ins that work only where a config names them; several of them connect by `plugins/brokers`. So does `relay mcp`. */
const EXPORT = /export \{ (?:from|to)[A-Z]\w* \} from "\.\.\/(plugins\/[\w/-]+)\.[jt]s";/g;
const PREFIX = "\0library:";

interface OptionalLibraries {
  readonly plugin: Plugin;
  /** The packages that are installed, and the file that each begins with. */
  readonly found: ReadonlyMap<string, string>;
}

/** @param root the package's own folder */
export async function optionalLibraries(root: string): Promise<OptionalLibraries> {
  const index = await readFile(join(root, `config/index${SUFFIX}`), "utf8");
  const files = new Set([...index.matchAll(EXPORT)].map(([, file = ""]) => file + SUFFIX));
  const found = new Map<string, string>();
  const plugin: Plugin = {
    name: "relay-optional-libraries",
    resolveId: {
      order: "pre",
      async handler(id, importer, { kind }) {
        if (kind !== "dynamic-import" || importer === undefined || /^(?:[./]|node:)/.test(id)) return undefined;
        const file = relative(root, importer).replaceAll(sep, "/");
        if (!files.has(file) && !/^(?:plugins\/brokers|cli\/mcp)\//.test(file)) return undefined;
        // `missing` puts a module in the place of one that is not installed.
        const library = await this.resolve(id, importer, { kind, skipSelf: true });
        if (library === null || library.external || library.id.startsWith("\0")) return undefined;
        found.set(id, library.id);
        return `${PREFIX}${id}`;
      },
    },
    load(id) {
      if (!id.startsWith(PREFIX)) return undefined;
      return `const name = ${JSON.stringify(packageAsset(id.slice(PREFIX.length)))}, made = { exports: {} };
const text = require("node:sea").getAsset(name, "utf8");
const given = ["module", "exports", "require", "__filename", "__dirname"], at = process.execPath;
require("node:vm").compileFunction(text, given, { filename: name })(made, made.exports,
  require("node:module").createRequire(at), at, require("node:path").dirname(at));
module.exports = made.exports;`;
    },
  };
  return { plugin, found };
}
