/** The files of a plug-in's package as `relay init --plugin` writes them: the port, its tests, and what a package needs. */
import { VERSION } from "../../model/version.ts";
import { AUTH } from "./auth.ts";
import { OBSERVER } from "./observer.ts";
import { SOURCE } from "./source.ts";
import { STORAGE } from "./storage.ts";
import { TRANSPORT } from "./transport.ts";

/** The text of a kind: `NAME` stands for the package's name, `FACTORY` for the function's, `VARIABLE` begins variables' names. */
interface Template {
  /** What it does as it is written, for the README. */
  readonly about: string;
  /** How a config names it. */
  readonly use: string;
  readonly source: string;
  readonly test: string;
}

const TEMPLATES = {
  source: SOURCE,
  transport: TRANSPORT,
  storage: STORAGE,
  auth: AUTH,
  observer: OBSERVER,
} satisfies Readonly<Record<string, Template>>;

type PluginKind = keyof typeof TEMPLATES;
export const PLUGIN_KINDS = Object.keys(TEMPLATES) as readonly PluginKind[];

/** What the package is made with; the first number of each is what the relay itself is tested with. */
const TOOLS = { "@types/node": "^26.0.0", "fast-check": "^4.0.0", typescript: "^7.0.0", vitest: "^5.0.0" };
const LIBRARIES = { zod: "^4.0.0" };

/** Whether a package and a plug-in can have this name. */
export const isPackageName = (name: string): boolean =>
  /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) && name.length <= 60;

/** @param name a name that `isPackageName` takes. @returns the texts by their paths in the package */
export function packageFiles(kind: PluginKind, name: string): Readonly<Record<string, string>> {
  const { about, use, source, test } = TEMPLATES[kind];
  const factory = name.replaceAll(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  const words = { FACTORY: factory, NAME: name, VARIABLE: name.replaceAll("-", "_").toUpperCase() };
  const named = (text: string): string =>
    text.replaceAll(/FACTORY|NAME|VARIABLE/g, (word) => words[word as keyof typeof words]).trimStart();
  const json = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;
  const entry = { types: "./dist/index.d.ts", default: "./dist/index.js" };
  const compilerOptions = {
    module: "nodenext",
    target: "es2024",
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    verbatimModuleSyntax: true,
    rewriteRelativeImportExtensions: true,
    skipLibCheck: true,
    types: ["node"],
    noEmit: true,
  };
  return {
    "package.json": json({
      name,
      version: "0.1.0",
      type: "module",
      exports: { ".": entry },
      files: ["dist"],
      engines: { node: ">=24" },
      scripts: { build: "tsc -p tsconfig.build.json", prepack: "npm run build", test: "vitest run", types: "tsc -p ." },
      dependencies: { ...LIBRARIES, ...(kind === "storage" && { unstorage: "^1.17.0" }) },
      devDependencies: { ...TOOLS, relaybox: `^${VERSION}` },
      peerDependencies: { relaybox: `^${VERSION}` },
    }),
    "tsconfig.json": json({ compilerOptions, include: ["src", "test"] }),
    "tsconfig.build.json": json({
      extends: "./tsconfig.json",
      compilerOptions: { noEmit: false, declaration: true, rootDir: "src", outDir: "dist" },
      include: ["src"],
    }),
    ".gitignore": "node_modules\ndist\n",
    "README.md": named(`# NAME

A ${kind} plug-in for [relaybox](https://www.npmjs.com/package/relaybox). ${about}

\`\`\`ts
${use.trim()}
\`\`\`

\`npm install\`, then \`npm test\` runs the law of the port (\`relaybox/conformance\`) and what is special here, \`npm run types\` checks
the types, and \`npm pack\` builds what can be published: Node strips no types inside \`node_modules\`.

Where no registry has \`relaybox\`, as when you run it from a checkout, \`npm pack\` there makes a file, and
\`npm install --save-dev FILE\` here takes it in place of \`npm install\`. All of it needs Node 24 or newer.

The guide is \`docs/plugins.md\` in the package relaybox; the promises of the port are in its types.
`),
    "src/index.ts": named(source),
    "test/index.test.ts": named(test),
  };
}
