/**
 * Keeps the clients of other systems (`fromKafka`, `toNats` …) in files of their own inside an executable. Together they are
 * nearly as large as the relay itself, and the text of the program stays in memory; these are read when a config uses them.
 */
import { readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import type { Plugin } from "rolldown";
import { packageAsset } from "../../core/lib/package-asset.ts";
import { SUFFIX } from "./pieces.ts";

/** Plug-ins that work only where a config names them. */
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
  const files = new Set([...index.matchAll(EXPORT)].map(([, file = ""]) => file));
  const found = new Map<string, string>();
  const plugin: Plugin = {
    name: "relay-optional-libraries",
    resolveId: {
      order: "pre",
      async handler(id, importer, { kind }) {
        if (kind !== "dynamic-import" || importer === undefined || /^(?:[./]|node:)/.test(id)) return undefined;
        if (!files.has(relative(root, importer).split(sep).join("/").slice(0, -SUFFIX.length))) return undefined;
        // One that is not installed is left out, as other optional packages are: `missing` puts a module in its place.
        const file = await this.resolve(id, importer, { kind, skipSelf: true });
        if (file === null || file.external || file.id.startsWith("\0")) return undefined;
        found.set(id, file.id);
        return `${PREFIX}${id}`;
      },
    },
    load(id) {
      if (!id.startsWith(PREFIX)) return undefined;
      const name = JSON.stringify(packageAsset(id.slice(PREFIX.length)));
      return `const text = require("node:sea").getAsset(${name}, "utf8");
const made = { exports: {} };
const given = ["module", "exports", "require", "__filename", "__dirname"];
require("node:vm").compileFunction(text, given, { filename: ${name} })(made, made.exports,
  require("node:module").createRequire(process.execPath), process.execPath, require("node:path").dirname(process.execPath));
module.exports = made.exports;`;
    },
  };
  return { plugin, found };
}
