/** Reads the packages of plug-ins that `relay init --plugin` writes: those in `examples/`, under another name. */
import { readFileSync } from "node:fs";
import { getAsset, isSea } from "node:sea";

export const PLUGIN_KINDS = ["source", "queue", "transport", "bus", "storage", "auth", "observer"] as const;
type PluginKind = (typeof PLUGIN_KINDS)[number];

/** The asset of an executable that holds them: JSON, the texts by kind and path. */
export const PACKAGES_FILE = "plugin-packages.json";

/** Settings of the compiler are the same for all. They stand apart, so that the linter takes the repository's own for the code. */
const SETTINGS = ["tsconfig.json", "tsconfig.build.json"];
const FILES = ["package.json", "README.md", "src/index.ts", "test/index.test.ts"];

type Texts = Readonly<Record<string, string>>;

/** True when a package and a plug-in can have this name. */
export const isPackageName = (name: string): boolean =>
  /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) && name.length <= 60;

/** @param name a name that `isPackageName` takes. @returns the texts by their paths in the package */
export function packageFiles(kind: PluginKind, name: string): Texts {
  const texts = isSea()
    ? (JSON.parse(getAsset(PACKAGES_FILE, "utf8")) as Record<PluginKind, Texts>)[kind]
    : textsOf(kind);
  const named = (text: string): string =>
    spellings(`my-${kind}`).reduce((all, own, i) => all.replaceAll(own, spellings(name)[i] as string), text);
  return Object.fromEntries(Object.entries(texts).map(([path, text]) => [path, named(text)]));
}

/** Returns the content of the asset. */
export const packPackages = (): string =>
  JSON.stringify(Object.fromEntries(PLUGIN_KINDS.map((kind) => [kind, textsOf(kind)])));

/** As the package, as its function and as what begins the names of its variables. */
const spellings = (name: string): readonly string[] => [
  name,
  name.replaceAll(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
  name.replaceAll("-", "_").toUpperCase(),
];

function textsOf(kind: PluginKind): Texts {
  // A published package has its JavaScript two folders deeper than a checkout its sources.
  const examples = import.meta.url.endsWith(".ts") ? "../../examples/" : "../../../../examples/";
  const read = (path: string): string => readFileSync(new URL(examples + path, import.meta.url), "utf8");
  return {
    // npm leaves a file of this name out of what it packs.
    ".gitignore": "node_modules\ndist\n",
    ...Object.fromEntries(SETTINGS.map((file) => [file, read(`plugin-settings/${file}`)])),
    ...Object.fromEntries(FILES.map((file) => [file, read(`plugin-${kind}/${file.replace("package", "manifest")}`)])),
  };
}
