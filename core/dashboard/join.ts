/**
 * Joins the page's modules to a single one, so that they come in one answer and are zipped as one text. Each stays in a
 * scope of its own: a function that returns what the module exports.
 */

const IMPORT = /^import\s*\{([^}]*)\}\s*from\s*"([^"]+)";/gm;
const EXPORT = /^export (?=(?:async function|function|const|class) (\w+))/gm;
const OWN = /^\.\/([a-z-]+)\.ts$/;

interface Module {
  readonly name: string;
  readonly text: string;
}

/**
 * @param read returns the text of a module by its name, as JavaScript
 * @returns the module, which imports only libraries
 * @throws Error for an import or export of a form that the page does not use, and for modules that import each other
 */
export async function joinModules(entry: string, read: (name: string) => Promise<string>): Promise<string> {
  const libraries = new Map<string, string>();
  const joined: Module[] = [];
  const begun = new Set<string>();

  async function add(name: string): Promise<void> {
    if (joined.some((one) => one.name === name)) return;
    if (begun.has(name)) throw new Error(`${name}.ts imports itself, through other modules`);
    begun.add(name);
    const source = await read(name);
    for (const [, , from = ""] of source.matchAll(IMPORT)) {
      const own = OWN.exec(from)?.[1];
      if (own !== undefined) await add(own);
      else if (!libraries.has(from)) libraries.set(from, `$${libraries.size}`);
    }
    joined.push({ name, text: scoped(name, source, libraries) });
  }

  await add(entry);
  const imports = [...libraries].map(([from, as]) => `import * as ${as} from "${from}";`);
  return [...imports, ...joined.map(({ text }) => text)].join("\n");
}

function scoped(name: string, source: string, libraries: ReadonlyMap<string, string>): string {
  const exported = [...source.matchAll(EXPORT)].map(([, one]) => one);
  const body = source
    .replaceAll(IMPORT, (_, names: string, from: string) => {
      const own = OWN.exec(from)?.[1];
      const module = own === undefined ? libraries.get(from) : nameOf(own);
      return `const {${names.replaceAll(" as ", ": ")}} = ${module};`;
    })
    .replaceAll(EXPORT, "");
  const left = /^(?:import|export)\b.*/m.exec(body)?.[0];
  if (left !== undefined) throw new Error(`${name}.ts: this form cannot be joined: ${left}`);
  return `const ${nameOf(name)} = (() => {\n${body.trim()}\nreturn { ${exported.join(", ")} };\n})();`;
}

const nameOf = (module: string): string => `$${module.replaceAll("-", "_")}`;
