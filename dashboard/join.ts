/**
 * Joins the page's modules and libraries to a single module, so that they come in one answer and are zipped as one text.
 * Each stays in a scope of its own: a function that returns what the module exports.
 */

const IMPORT = /^import\s*\{([^}]*)\}\s*from\s*"([^"]+)";/gm;
const EXPORT = /^export (?=(?:async function|function|const|class) (\w+))/gm;
/** How a library's file says what it exports: at its end, whatever it has called that itself. */
const EXPORTED = /\bexport\s*\{([^}]*)\};?\s*$/;
const OWN = /^\.\/([a-z-]+\.ts)$/;

interface Module {
  readonly name: string;
  readonly text: string;
}

/**
 * @param read returns the text of a module or library by its name, as JavaScript
 * @returns the module, which imports nothing by name at its start
 * @throws Error for an import or export of a form that the page does not use, and for modules that import each other
 */
export async function joinModules(entry: string, read: (name: string) => Promise<string>): Promise<string> {
  const joined: Module[] = [];
  const begun = new Set<string>();

  async function add(name: string): Promise<void> {
    if (joined.some((one) => one.name === name)) return;
    if (begun.has(name)) throw new Error(`${name} imports itself, through other modules`);
    begun.add(name);
    const source = await read(name);
    for (const [, , from = ""] of source.matchAll(IMPORT)) await add(moduleOf(from));
    joined.push({ name, text: scoped(name, source) });
  }

  await add(entry);
  return joined.map(({ text }) => text).join("\n");
}

function scoped(name: string, source: string): string {
  const exported = [...source.matchAll(EXPORT)].map(([, one]) => one);
  const listed = isLibrary(name) ? EXPORTED.exec(source)?.[1]?.split(",") : undefined;
  for (const one of listed ?? []) {
    const [inside, outside = inside] = one.trim().split(" as ");
    exported.push(`${outside}: ${inside}`);
  }
  const body = (listed === undefined ? source : source.replace(EXPORTED, ""))
    .replaceAll(
      IMPORT,
      (_, names: string, from: string) => `const {${names.replaceAll(" as ", ": ")}} = ${nameOf(moduleOf(from))};`,
    )
    .replaceAll(EXPORT, "");
  const left = /^(?:import|export)\b.*/m.exec(body)?.[0];
  if (left !== undefined) throw new Error(`${name}: this form cannot be joined: ${left}`);
  return `const ${nameOf(name)} = (() => {\n${body.trim()}\nreturn { ${exported.join(", ")} };\n})();`;
}

/** `./a-b.ts` is `a-b.ts`; a library keeps its name. */
const moduleOf = (from: string): string => OWN.exec(from)?.[1] ?? from;
const isLibrary = (module: string): boolean => !module.endsWith(".ts");
const nameOf = (module: string): string => `$${module.replaceAll(/\W/g, "_")}`;
