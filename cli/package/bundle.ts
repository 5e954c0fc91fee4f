/** Bundles the command, the plug-ins of a config and their libraries into one file of JavaScript, and collects its assets. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import type { OutputChunk, Plugin, RolldownBuild, RolldownOptions } from "rolldown";
import { EMBEDDED, packAssets } from "../../dashboard/assets.ts";
import { CONFIG_FILE } from "../commands/init.ts";
import { PACKAGES_FILE, packPackages } from "./plugin-packages.ts";
import { EX_CONFIG, EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { optionalLibraries } from "./optional-libraries.ts";
import { packageAsset } from "../../core/lib/package-asset.ts";
import { embed, ENTRY, entry, inlined, missing, SUFFIX, trimmed } from "./pieces.ts";

export interface Bundle {
  readonly code: string;
  /** Files that the executable carries beside its code, by name: programs of threads, the pages, what `relay init` writes. */
  readonly assets: Readonly<Record<string, string | Uint8Array>>;
  /** Absolute paths of all files in it. */
  readonly files: readonly string[];
  /** SHA-256 of code and assets: the same input gives the same hash. */
  readonly hash: string;
}

/** Programs that run in threads: the asset's name → the file. One that the config does not use is left out. */
const WORKERS: Readonly<Record<string, string>> = { "sqlite-worker.mjs": `plugins/storage/sqlite/worker${SUFFIX}` };

/** Libraries of the dashboard: their licences are listed too. */
const PAGE_LIBRARIES = ["preact", "uplot", "uqr"];

/**
 * @param root the package's own folder
 * @param config absolute path of the config that is built in; undefined for the defaults
 * @throws ExitError when something that the config imports is not there
 */
export async function bundle(root: string, config: string | undefined): Promise<Bundle> {
  const libraries = await optionalLibraries(root);
  const main = await build(root, ENTRY, [entry(root, config), embed(root), libraries.plugin]);
  const files = new Set(main.moduleIds);
  const assets: Record<string, string | Uint8Array> = {};
  for (const [id, file] of libraries.found) {
    const made = await build(root, file, []);
    assets[packageAsset(id)] = made.code;
    for (const file of made.moduleIds) files.add(file);
  }
  for (const [name, path] of Object.entries(WORKERS)) {
    const file = join(root, path);
    if (![...files].some((id) => dirname(id) === dirname(file))) continue;
    const made = await build(root, file, []);
    assets[name] = made.code;
    for (const id of made.moduleIds) files.add(id);
  }
  assets[EMBEDDED] = await packAssets();
  assets[PACKAGES_FILE] = packPackages();
  assets[CONFIG_FILE] = await readFile(join(root, CONFIG_FILE));
  for (const name of PAGE_LIBRARIES) files.add(createRequire(import.meta.url).resolve(name));
  const hash = createHash("sha256").update(main.code);
  for (const name of Object.keys(assets).sort()) hash.update(`\n${name}\n`).update(assets[name] as string | Uint8Array);
  const real = [...files].filter((file) => !file.startsWith("\0")).sort();
  return { code: main.code, assets, files: real, hash: hash.digest("hex") };
}

async function build(root: string, input: string, plugins: Plugin[]): Promise<OutputChunk> {
  const { rolldown } = await import("rolldown").catch(() => {
    throw new ExitError(EX_UNAVAILABLE, "building needs rolldown: npm install --save-dev rolldown@1.2.19");
  });
  const options: RolldownOptions = {
    input,
    cwd: root,
    platform: "node",
    plugins: [...plugins, trimmed, inlined, missing(root)],
    resolve: {
      conditionNames: ["node"],
      alias: {
        "relaybox/client": join(root, `core/client/index${SUFFIX}`),
        "relaybox/verify": join(root, `core/signing/verify${SUFFIX}`),
        relaybox: join(root, `config/index${SUFFIX}`),
      },
    },
    logLevel: "silent",
    onLog: () => undefined,
  };
  const built = await rolldown(options);
  try {
    return await generate(built);
  } catch (error) {
    // Only files of the config can be broken or missing.
    throw new ExitError(EX_CONFIG, `cannot be built: ${readable(error)}`, { cause: error });
  } finally {
    await built.close();
  }
}

/** The bundler's message without colours and without its stack. */
const readable = (error: unknown): string =>
  stripVTControlCharacters(String((error as Error | undefined)?.message ?? error))
    .split("\n")
    .filter((line) => !/^\s+at /.test(line))
    .join("\n");

async function generate(built: RolldownBuild): Promise<OutputChunk> {
  const { output } = await built.generate({
    format: "cjs",
    codeSplitting: false,
    exports: "auto",
    comments: false,
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
  });
  return { ...output[0], code: ascii(output[0].code) };
}

/** One character beyond Latin-1 would make the engine keep two bytes for each of them. */
const ascii = (code: string): string =>
  code.replaceAll(/[^\u0000-\u007f]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
