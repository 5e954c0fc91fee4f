/**
 * Builds the assets of the page. Its modules are TypeScript, stripped of types and joined to one at the first request;
 * its libraries are files of their packages. A single executable contains the result instead.
 */
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { joinModules } from "./join.ts";
import { receiversModule } from "./receivers.ts";

const JAVASCRIPT = "text/javascript; charset=utf-8";

interface Library {
  readonly name: string;
  readonly file: string;
  readonly tail?: string;
  /** Its file is as it was written: comments and indentation are removed. */
  readonly unminified?: true;
}

/** What every view needs: a part of the page's one module. */
const JOINED: Readonly<Record<string, string>> = {
  preact: "preact/dist/preact.mjs",
  "preact/hooks": "preact/hooks/dist/hooks.mjs",
};
/** The source of a package that the page imports when a view asks for it. */
const LIBRARIES: Readonly<Record<string, Library>> = {
  uqr: { name: "uqr", file: "uqr/dist/index.mjs", unminified: true },
  // Its module is not minified; its script is, and only needs an export.
  uplot: { name: "uplot", file: "uplot/dist/uPlot.iife.min.js", tail: "\nexport default uPlot;\n" },
};

export interface Asset {
  /** `main.3f2a….js`: the name changes with the content of any asset. */
  readonly name: string;
  readonly type: string;
  readonly body: Uint8Array;
  readonly gzip: Uint8Array;
}

export interface Assets {
  /** The script that stands in the document itself. */
  readonly start: string;
  readonly byName: ReadonlyMap<string, Asset>;
  /** Changes when anything changes. */
  readonly version: string;
}

interface Packed {
  readonly start: string;
  readonly version: string;
  readonly assets: readonly { readonly name: string; readonly type: string; readonly text: string }[];
}

/** The name under which a single executable contains them. */
export const EMBEDDED = "dashboard.json";

export async function loadAssets(): Promise<Assets> {
  const sea = process.getBuiltinModule("node:sea");
  const { version, start, assets } = sea.isSea()
    ? (JSON.parse(sea.getAsset(EMBEDDED, "utf8")) as Packed)
    : await make();
  const all = assets.map(({ name, type, text }) => {
    const body = Buffer.from(text);
    return [name, { name, type, body, gzip: gzipSync(body, { level: 9 }) }] as const;
  });
  return { byName: new Map(all), version, start };
}

/** Loads them at the first call, once. A failure is tried again. */
export function assetsOnce(): () => Promise<Assets> {
  let loading: Promise<Assets> | undefined;
  return () =>
    (loading ??= loadAssets().catch((error: unknown) => {
      loading = undefined;
      throw error;
    }));
}

/** Returns all assets as one text, for building a single executable. */
export const packAssets = async (): Promise<string> => JSON.stringify(await make());

async function make(): Promise<Packed> {
  const require = createRequire(import.meta.url);
  const folder = join(import.meta.dirname, "client");
  const library = async (file: string): Promise<string> => {
    const [name = ""] = file.split("/");
    return (await readFile(join(rootOf(require, name), file.slice(name.length + 1)), "utf8")).replace(
      /\n\/\/# sourceMappingURL=.*\n?$/,
      "\n",
    );
  };
  const sources: { readonly base: string; readonly end: string; readonly type: string; readonly text: string }[] = [];
  const own = async (name: string): Promise<string> => squeeze(plain(await readFile(join(folder, name), "utf8")));
  const start = `{\n${await joinModules("start.ts", own)}\n}`;
  if (/<\/script|<!--/i.test(start)) throw new Error("start.ts: this cannot stand in a document");
  const main = await joinModules("main.ts", async (name) =>
    JOINED[name] === undefined ? await own(name) : await library(JOINED[name]),
  );
  sources.push({ base: "main", end: "js", type: JAVASCRIPT, text: main });
  for (const { name, file, tail = "", unminified = false } of Object.values(LIBRARIES)) {
    const text = await library(file);
    sources.push({ base: name, end: "js", type: JAVASCRIPT, text: (unminified ? squeeze(text) : text) + tail });
  }
  sources.push({ base: "receivers", end: "js", type: JAVASCRIPT, text: await receiversModule() });
  const style = await readFile(join(folder, "style.css"), "utf8");
  const css = (await library("uplot/dist/uPlot.min.css")) + squeezeStyle(style);
  sources.push({ base: "style", end: "css", type: "text/css; charset=utf-8", text: css });
  const icon = await readFile(join(folder, "icon.svg"), "utf8");
  sources.push({ base: "icon", end: "svg", type: "image/svg+xml", text: icon });

  const version = hash("sha256", JSON.stringify([start, sources])).slice(0, 12);
  const assets = sources.map(({ base, end, type, text }) => ({
    name: `${base}.${version}.${end}`,
    type,
    text: end === "js" ? named(text, version) : text,
  }));
  return { version, start, assets };
}

/** Returns the folder of an installed package, which may be anywhere up the tree. */
function rootOf(require: NodeJS.Require, name: string): string {
  for (const place of require.resolve.paths(name) ?? []) {
    const file = join(place, name, "package.json");
    try {
      require.resolve(file);
      return dirname(file);
    } catch {
      // Not here: look further up.
    }
  }
  throw new Error(`the package ${name} is not installed`);
}

/** Replaces the names of imported modules by the served ones. */
function named(text: string, version: string): string {
  return text.replaceAll(/(\bfrom\s*|\bimport\s*\(?\s*)"([^"\n]+)"/g, (whole, before: string, to: string) => {
    const base = to === "relay:receivers" ? "receivers" : LIBRARIES[to]?.name;
    return base === undefined ? whole : `${before}"./${base}.${version}.js"`;
  });
}

/** Strips the types. Hides Node's warning that its stripper is experimental, since no operator can act on it. */
function plain(source: string): string {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}

/**
 * Removes comment lines, indentation and the white space that stripped types leave. No text literal spans lines, or has
 * three blanks in a row.
 */
const squeeze = (text: string): string =>
  text
    .replaceAll(/^[ \t]*(?:\/\*\*[^]*?\*\/|\/\/.*)$/gm, "")
    .replaceAll(/^[ \t]+|[ \t]+$/gm, "")
    .replaceAll(/ {3,}/g, " ")
    .replaceAll(/\n{2,}/g, "\n");

/** Removes comments and most white space. No text of the stylesheet has two blanks in a row. */
const squeezeStyle = (css: string): string =>
  css
    .replaceAll(/\/\*[^]*?\*\//g, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?([{};,]) ?/g, "$1")
    .replaceAll(";}", "}")
    .replaceAll(/: /g, ":");
