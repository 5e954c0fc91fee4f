/** Lists what an executable is made of: an SBOM (CycloneDX 1.6) and the licences of all its packages. */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };

const OWN = fileURLToPath(new URL("../..", import.meta.url)).replace(/[\\/]$/, "");

export interface PackagePart {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly notice: string;
}

/** The packages that the files of a bundle belong to, by name. */
export async function partsOf(files: readonly string[]): Promise<readonly PackagePart[]> {
  const folders = new Map<string, string[]>();
  for (const file of files) {
    // Files outside a package are the operator's own.
    if (!/[\\/]node_modules[\\/]/.test(file) && !file.startsWith(OWN)) continue;
    const folder = packageOf(dirname(file));
    if (folder === undefined) continue;
    const own = folders.get(folder) ?? [];
    folders.set(folder, [...own, `${file}.LICENSE.txt`]);
  }
  const parts = await Promise.all([...folders].map(([folder, more]) => partAt(folder, more)));
  const once = new Map(parts.map((part) => [`${part.name}@${part.version}`, part]));
  once.delete(`${manifest.name}@${manifest.version}`);
  return [...once.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

const known = new Map<string, string | undefined>();

/** The nearest folder upwards with a package.json that names a package: some only say of what kind the files are. */
function packageOf(folder: string): string | undefined {
  if (known.has(folder)) return known.get(folder);
  const file = join(folder, "package.json");
  const named = existsSync(file) && "version" in (JSON.parse(readFileSync(file, "utf8")) as object);
  const found = named ? folder : dirname(folder) === folder ? undefined : packageOf(dirname(folder));
  known.set(folder, found);
  return found;
}

/** @param more where a file that is itself a bundle names what went into it, if it does */
async function partAt(folder: string, more: readonly string[]): Promise<PackagePart> {
  type Manifest = { name: string; version: string; license?: string | { type: string } };
  const {
    name,
    version,
    license: given,
  } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Manifest;
  const license = typeof given === "object" ? given.type : (given ?? "NOASSERTION");
  const file = (await readdir(folder)).find((entry) => /^(licen[sc]e|copying)(\.|$|-)/i.test(entry));
  const texts = await Promise.all(
    (file === undefined ? more : [join(folder, file), ...more]).map((path) => readFile(path, "utf8").catch(() => "")),
  );
  const notice = texts.filter((text) => text !== "").join("\n");
  return { name, version, license, notice: notice.trim() };
}

/** The SBOM, without a date or a serial number, so that the same parts give the same text. */
export function sbom(version: string, parts: readonly PackagePart[]): string {
  const component = ({ name, version: at, license }: PackagePart) => ({
    type: "library",
    name,
    version: at,
    purl: `pkg:npm/${name.replace("@", "%40")}@${at}`,
    licenses: [
      /[ ()]/.test(license) ? { expression: license.replace(/^\((.*)\)$/, "$1") } : { license: { id: license } },
    ],
  });
  const mit = [{ license: { id: "MIT" } }];
  const node = { type: "platform", name: "node", version: process.versions.node, licenses: mit };
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: { component: { type: "application", name: "relaybox", version, licenses: mit } },
    components: [node, ...parts.map(component)],
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** Licences of all parts, and of Node with what is in it where its text lies beside it, as in its packages. */
export function notices(parts: readonly PackagePart[], node = nodeNotice()): string {
  const head = `This executable contains Node.js ${process.versions.node} and the packages below.\n`;
  const one = ({ name, version, license, notice }: PackagePart): string =>
    `${"-".repeat(78)}\n${name} ${version} (${license})\n\n${notice === "" ? "No licence text in the package." : notice}\n`;
  const first = { name: "Node.js", version: process.versions.node, license: "MIT", notice: node };
  return [head, ...[first, ...parts].map(one)].join("\n");
}

function nodeNotice(): string {
  const file = join(dirname(dirname(realpathSync(process.execPath))), "LICENSE");
  return existsSync(file) ? readFileSync(file, "utf8").trim() : "https://github.com/nodejs/node/blob/main/LICENSE";
}
