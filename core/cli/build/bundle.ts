/** Puts the command, the plug-ins of a config and their libraries into one file of JavaScript. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { dirname, join } from "node:path";
import type { OutputChunk, Plugin, RolldownOptions } from "rolldown";
import { EX_UNAVAILABLE, ExitError } from "../exit.ts";

export interface Bundle {
  readonly code: string;
  /** Programs of worker threads, by name. */
  readonly workers: Readonly<Record<string, string>>;
  /** Absolute paths of all files in it. */
  readonly files: readonly string[];
  /** SHA-256 of all of it: the same input gives the same. */
  readonly hash: string;
}

const ENTRY = "\0relay-entry";
/** Programs that run in threads: the asset's name → the file. One that the config does not use is left out. */
const WORKERS: Readonly<Record<string, string>> = { "sqlite-worker.mjs": "plugins/storage/sqlite/worker.ts" };

/**
 * @param root the package's own folder
 * @param config absolute path of the config that is built in; undefined for the defaults
 */
export async function bundle(root: string, config: string | undefined): Promise<Bundle> {
  const main = await build(root, ENTRY, [entry(root, config), embed(root)]);
  const files = new Set(main.moduleIds);
  const programs: Record<string, string> = {};
  for (const [name, path] of Object.entries(WORKERS)) {
    const file = join(root, path);
    if (![...files].some((id) => dirname(id) === dirname(file))) continue;
    const made = await build(root, file, []);
    programs[name] = made.code;
    for (const id of made.moduleIds) files.add(id);
  }
  const hash = createHash("sha256").update(main.code);
  for (const name of Object.keys(programs).sort()) hash.update(name).update(programs[name] as string);
  const real = [...files].filter((file) => !file.startsWith("\0")).sort();
  return { code: main.code, workers: programs, files: real, hash: hash.digest("hex") };
}

async function build(root: string, input: string, plugins: Plugin[]): Promise<OutputChunk> {
  const { rolldown } = await import("rolldown").catch(() => {
    throw new ExitError(EX_UNAVAILABLE, "building needs rolldown: npm install --save-dev rolldown@1.2.19");
  });
  const options: RolldownOptions = {
    input,
    cwd: root,
    platform: "node",
    plugins: [...plugins, absent],
    resolve: { conditionNames: ["node", "import", "default"], alias: { relaybox: join(root, "config/index.ts") } },
    logLevel: "silent",
    onLog: () => undefined,
  };
  const built = await rolldown(options);
  try {
    const { output } = await built.generate({
      format: "cjs",
      codeSplitting: false,
      exports: "none",
      comments: false,
      minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
    });
    return { ...output[0], code: ascii(output[0].code) };
  } finally {
    await built.close();
  }
}

/** One character beyond Latin-1 would make the engine keep two bytes for each of them. */
const ascii = (code: string): string =>
  code.replaceAll(/[^\u0000-\u007f]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** What no executable needs: the builder itself. */
const NEEDLESS = ["rolldown"];
/** Asked for at once but used only for certificates that listhen would make, and ours are files: an empty one will do. */
const HOLLOW = ["node-forge"];

/** Libraries ask for others that are only there sometimes: what is not installed throws when it is asked for, as it would. */
const absent: Plugin = {
  name: "relay-absent",
  resolveId: {
    order: "post",
    async handler(id, importer, { custom }) {
      if (HOLLOW.includes(id)) return `\0hollow:${id}`;
      if (NEEDLESS.includes(id)) return `\0absent:${id}`;
      if (/^[./\0]|^node:|^[A-Za-z]:/.test(id) || isBuiltin(id) || custom !== undefined) return undefined;
      const found = await this.resolve(id, importer, { skipSelf: true });
      return found === null || found.external ? `\0absent:${id}` : found;
    },
  },
  load(id) {
    if (id.startsWith("\0hollow:")) return "module.exports = {};";
    if (!id.startsWith("\0absent:")) return undefined;
    const message = `${id.slice("\0absent:".length)} is not part of this executable`;
    const error = `Object.assign(new Error(${JSON.stringify(message)}), { code: "MODULE_NOT_FOUND" })`;
    return `module.exports = (() => { throw ${error}; })();`;
  },
};

/** The program: the command itself, with the config that is built in. */
function entry(root: string, config: string | undefined): Plugin {
  const file = (path: string): string => JSON.stringify(join(root, path));
  return {
    name: "relay-entry",
    resolveId: (id) => (id === ENTRY ? id : undefined),
    load(id) {
      if (id === ENTRY) {
        return `import { main } from ${file("core/cli/program.ts")};
main(process.argv.slice(2)).then((code) => { process.exitCode = code; });`;
      }
      if (id !== join(root, "config/built-in.ts") || config === undefined) return undefined;
      return `export { default as builtIn } from ${JSON.stringify(config)};`;
    },
  };
}

/** Inside an executable there is no file for `relaybox` to resolve to: the door is another. */
function embed(root: string): Plugin {
  return {
    name: "relay-embed",
    async load(id) {
      if (id !== join(root, "config/door.ts")) return undefined;
      const text = await readFile(join(root, "core/cli/build/embedded-door.ts"), "utf8");
      return { code: text.replaceAll('"../../../config/', '"./').replaceAll('"../../', '"../core/'), moduleType: "ts" };
    },
  };
}
