/** Counts what the budgets bound: lines by room, long functions, full folders, and exports that nobody imports. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseSync } from "rolldown/utils";

export type Figures = Readonly<Record<string, number>>;
export interface Measured {
  readonly lines: Figures;
  /** Only those above the bound, as are `folders`. */
  readonly functions: Figures;
  readonly folders: Figures;
  /** `file name` of each. */
  readonly unused: readonly string[];
}

const LONGEST_FUNCTION = 80;
const FULLEST_FOLDER = 25;
export const root = resolve(import.meta.dirname, "../..");

const PRODUCT = ["core", "plugins", "config", "cli", "dashboard"];
const USERS = [...PRODUCT, "test", "bench", "tools", "examples", "relay.config.ts"];
/** Files that people import, and those that the bundler puts in another's place: their exports count as used. */
const DOORS: Readonly<Record<string, string>> = {
  relaybox: "config/index.ts",
  "relaybox/client": "core/client/index.ts",
  "relaybox/verify": "core/signing/verify.ts",
  "relaybox/conformance": "test/conformance/index.ts",
  "the executable's module resolver": "cli/package/embedded-modules.ts",
};

/** Begins a file that a test makes and proves fresh: it is nobody's to read, and is not counted. */
const GENERATED = "// Generated from ";

/** Measures what git knows or would add, so nothing that a build makes. */
export function measure(): Measured {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", ...USERS];
  const listed = execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const texts = new Map<string, string>();
  for (const file of listed.split("\n")) {
    if (/\.(ts|tsx|mjs|css)$/.test(file) && existsSync(join(root, file)))
      texts.set(file, readFileSync(join(root, file), "utf8"));
  }
  return measureTexts(texts);
}

/** @param texts file → its text */
export function measureTexts(texts: ReadonlyMap<string, string>): Measured {
  const lines: Record<string, number> = {};
  const functions: Record<string, number> = {};
  const folders: Record<string, number> = {};
  const uses = new Set<string>();
  const exported: string[] = [];
  for (const [file, text] of texts) {
    const parsed = file.endsWith(".css") ? undefined : parseSync(file, text);
    if (parsed !== undefined) for (const use of usesIn(file, text, parsed.module)) uses.add(use);
    if (!PRODUCT.includes(file.split("/")[0] as string) || text.startsWith(GENERATED)) continue;
    add(lines, /^(?:core|plugins)\/[^/]+(?=\/)|^[^/]+/.exec(file)?.[0] as string, text.split("\n").length - 1);
    add(folders, dirname(file), 1);
    if (parsed === undefined) continue;
    for (const [name, length] of functionsIn(text, parsed.program))
      functions[`${file} ${name}`] = Math.max(length, functions[`${file} ${name}`] ?? 0);
    if (!Object.values(DOORS).includes(file))
      for (const name of exportsOf(parsed.module)) exported.push(`${file} ${name}`);
  }
  const unused = exported.filter((name) => !uses.has(name) && !uses.has(`${name.split(" ")[0]} *`));
  return { lines, functions: above(functions, LONGEST_FUNCTION), folders: above(folders, FULLEST_FOLDER), unused };
}

function add(figures: Record<string, number>, name: string, more: number): void {
  figures[name] = (figures[name] ?? 0) + more;
}

const above = (figures: Figures, bound: number): Figures =>
  Object.fromEntries(Object.entries(figures).filter(([, figure]) => figure > bound));

type Module = ReturnType<typeof parseSync>["module"];

const exportsOf = (module: Module): readonly string[] =>
  module.staticExports.flatMap(({ entries }) =>
    entries.flatMap(({ exportName }) => (exportName.name === null ? [] : [exportName.name])),
  );

/** `file name` of all that a file imports or passes on; `file *` where the names cannot be seen. */
function* usesIn(file: string, text: string, module: Module): Generator<string> {
  const target = (from: string): string => (from.startsWith(".") ? join(dirname(file), from) : (DOORS[from] ?? from));
  for (const { moduleRequest, entries } of module.staticImports) {
    for (const { importName, localName } of entries) {
      if (importName.kind === "Name") yield `${target(moduleRequest.value)} ${importName.name}`;
      else for (const name of membersOf(text, localName.value)) yield `${target(moduleRequest.value)} ${name}`;
    }
  }
  for (const { moduleRequest, importName } of module.staticExports.flatMap(({ entries }) => entries))
    if (moduleRequest !== null) yield `${target(moduleRequest.value)} ${importName.name ?? "*"}`;
  for (const { index, 1: from = "" } of text.matchAll(/\bimport\(\s*"([^"]+)",?\s*\)/g)) {
    const taken = /\{([^{}]*)\}\s*=\s*await $/.exec(text.slice(0, index))?.[1];
    const member = /^import\([^()]*\)\)?\.(\w+)/.exec(text.slice(index))?.[1];
    const names = taken?.split(",").map((part) => part.trim().split(":")[0] as string);
    for (const name of names ?? [member === "then" ? "*" : (member ?? "*")]) yield `${target(from)} ${name}`;
  }
}

/** The members of a namespace that a file names; `*` when it hands the namespace on. */
function membersOf(text: string, namespace: string): readonly string[] {
  const uses = [...text.matchAll(new RegExp(`(?<!\\* as )\\b${namespace}\\b(?:\\.(\\w+))?`, "g"))];
  return uses.map(([, member]) => member ?? "*");
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === "string";

/** Each function with the names of those around it, and its lines. */
function* functionsIn(
  text: string,
  node: unknown,
  around: readonly string[] = [],
  named = "",
): Generator<[string, number]> {
  if (Array.isArray(node)) for (const one of node) yield* functionsIn(text, one, around, named);
  if (!isNode(node)) return;
  const isFunction = /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type);
  const own = nameOf(node["id"] ?? node["key"] ?? node["left"] ?? node["callee"]) || named;
  const inside = isFunction || node.type.startsWith("Class") ? [...around, own || "()"] : around;
  if (isFunction) yield [inside.join("."), text.slice(node.start, node.end).split("\n").length];
  for (const value of Object.values(node))
    if (typeof value === "object") yield* functionsIn(text, value, inside, inside === around ? own : "");
}

function nameOf(node: unknown): string {
  if (!isNode(node)) return "";
  return typeof node["name"] === "string" ? node["name"] : nameOf(node["property"]);
}
