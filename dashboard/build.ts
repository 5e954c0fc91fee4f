/**
 * Bundles the page with rolldown. As a program it writes `dist/dashboard.json`, unless that is newer than all that it is made of:
 * at an install, and in a process of its own when a relay of a checkout is asked for the page.
 */
import { hash } from "node:crypto";
import { mkdir, readdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { BUILT, type Packed } from "./assets.ts";

const JAVASCRIPT = "text/javascript; charset=utf-8";
const folder = join(import.meta.dirname, "client");
/** An import of this name gives the receivers of the guide. */
const RECEIVERS = "relay:receivers";

async function buildAssets(): Promise<Packed> {
  const receivers = await receiversModule();
  const [start] = await bundle("start.ts", "iife", receivers);
  if (start === undefined || /<\/script|<!--/i.test(start.text))
    throw new Error("start.ts: this cannot stand in a document");
  const scripts = await bundle("main.tsx", "esm", receivers);
  const docs = [
    ...(await bundle("reference/reference.tsx", "esm", receivers)).map((one) => ({ ...one, type: JAVASCRIPT })),
    await guidesAsset(),
  ];
  const uplot = createRequire(import.meta.url).resolve("uplot/dist/uPlot.min.css");
  const style = (await readFile(uplot, "utf8")) + squeezeStyle(await readFile(join(folder, "style.css"), "utf8"));
  const icon = await readFile(join(folder, "icon.svg"), "utf8");
  const version = hash("sha256", JSON.stringify([start, scripts, style, icon])).slice(0, 12);
  return {
    version,
    start: start.text,
    main: scripts[0]?.name ?? "",
    docs,
    assets: [
      ...scripts.map((one) => ({ ...one, type: JAVASCRIPT })),
      { name: `style.${version}.css`, type: "text/css; charset=utf-8", text: style },
      { name: `icon.${version}.svg`, type: "image/svg+xml", text: icon },
    ],
  };
}

/** Returns the chunks, the entry first: what a view imports when it is asked for is a chunk of its own. */
async function bundle(input: string, format: "iife" | "esm", receivers: string) {
  const { rolldown } = await import("rolldown");
  const built = await rolldown({
    input: join(folder, input),
    platform: "browser",
    logLevel: "silent",
    tsconfig: false,
    transform: { jsx: { runtime: "automatic", importSource: "preact" } },
    plugins: [
      {
        name: "receivers",
        resolveId: (id) => (id === RECEIVERS ? id : undefined),
        load: (id) => (id === RECEIVERS ? receivers : undefined),
      },
    ],
  });
  const names = "[name].[hash].js";
  const { output } = await built.generate({ format, minify: true, entryFileNames: names, chunkFileNames: names });
  return output.flatMap((one) => (one.type === "chunk" ? [{ name: one.fileName, text: one.code }] : []));
}

interface Receiver {
  readonly language: string;
  readonly code: string;
}

/**
 * Returns the receivers of `docs/verify.md` in its order: each is a heading with a block of code that is marked `verify`. The
 * page shows the code that the guide's tests run, and no second version of it.
 */
export function receiversOf(guide: string): readonly Receiver[] {
  return guide.split(/^### /m).flatMap((section) => {
    const [, code] = /^```[a-z]+ verify\n([^]*?)^```$/m.exec(section) ?? [];
    return code === undefined ? [] : [{ language: section.slice(0, section.indexOf("\n")), code }];
  });
}

const guides = join(import.meta.dirname, "../docs");
const GUIDE = join(guides, "verify.md");
const guideNames = async (): Promise<readonly string[]> =>
  (await readdir(guides)).filter((name) => name.endsWith(".md")).toSorted();

/** Returns all guides as one asset of `/docs`, by their names. */
async function guidesAsset(): Promise<Packed["docs"][number]> {
  const read = async (name: string) => ({ name: name.slice(0, -3), text: await readFile(join(guides, name), "utf8") });
  const text = JSON.stringify(await Promise.all((await guideNames()).map(read)));
  return { name: `guides.${hash("sha256", text).slice(0, 12)}.json`, type: "application/json", text };
}

/** Returns the text of the module `relay:receivers`, which the page imports when somebody asks for the code. */
async function receiversModule(): Promise<string> {
  const guide = await readFile(GUIDE, "utf8");
  return `export const receivers = ${JSON.stringify(receiversOf(guide))};\n`;
}

/** Removes comments and most white space. No text of the stylesheet has two blanks in a row. */
const squeezeStyle = (css: string): string =>
  css
    .replaceAll(/\/\*[^]*?\*\//g, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?([{};,]) ?/g, "$1")
    .replaceAll(";}", "}")
    .replaceAll(/: /g, ":");

const changedMs = async (file: string): Promise<number> => (await stat(file)).mtimeMs;

async function isFresh(): Promise<boolean> {
  const parts = await readdir(folder, { recursive: true });
  const told = (await guideNames()).map((name) => join(guides, name));
  const files = [import.meta.filename, ...told, ...parts.map((name) => join(folder, name))];
  const built = await changedMs(BUILT).catch(() => 0);
  return (await Promise.all(files.map(changedMs))).every((one) => one < built);
}

async function write(): Promise<void> {
  if (await isFresh()) return;
  const text = JSON.stringify(await buildAssets());
  const part = `${BUILT}.${process.pid}`;
  await mkdir(dirname(BUILT), { recursive: true });
  await writeFile(part, text);
  await rename(part, BUILT);
}
if (import.meta.main) await write();
