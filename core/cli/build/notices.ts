/** What an executable is made of: an SBOM (CycloneDX 1.6) and the licences of all that is in it. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export interface Part {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly notice: string;
}

/** The packages that the files of a bundle belong to, by name. */
export async function partsOf(files: readonly string[]): Promise<readonly Part[]> {
  const folders = new Set<string>();
  for (const file of files) {
    const found = /^(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/.exec(file)?.[1];
    if (found !== undefined) folders.add(found);
  }
  const parts = await Promise.all([...folders].map(partAt));
  const once = new Map(parts.map((part) => [`${part.name}@${part.version}`, part]));
  return [...once.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function partAt(folder: string): Promise<Part> {
  const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as {
    name: string;
    version: string;
    license?: string | { type: string };
  };
  const license = typeof manifest.license === "object" ? manifest.license.type : manifest.license;
  const file = (await readdir(folder)).find((name) => /^(licen[sc]e|copying)(\.|$|-)/i.test(name));
  const notice = file === undefined ? "" : await readFile(join(folder, file), "utf8");
  return { name: manifest.name, version: manifest.version, license: license ?? "NOASSERTION", notice: notice.trim() };
}

/** Without a date or a serial number: the same parts give the same text. */
export function sbom(version: string, parts: readonly Part[]): string {
  const component = ({ name, version: at, license }: Part) => ({
    type: "library",
    name,
    version: at,
    purl: `pkg:npm/${name.replace("@", "%40")}@${at}`,
    licenses: [
      /[ ()]/.test(license) ? { expression: license.replace(/^\((.*)\)$/, "$1") } : { license: { id: license } },
    ],
  });
  const node = {
    type: "platform",
    name: "node",
    version: process.versions.node,
    licenses: [{ license: { id: "MIT" } }],
  };
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: { component: { type: "application", name: "relaybox", version, licenses: [{ license: { id: "MIT" } }] } },
    components: [node, ...parts.map(component)],
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

export function notices(parts: readonly Part[]): string {
  const head = `This executable contains Node.js ${process.versions.node} (https://github.com/nodejs/node/blob/main/LICENSE) and:\n`;
  const one = ({ name, version, license, notice }: Part): string =>
    `${"-".repeat(78)}\n${name} ${version} (${license})\n\n${notice === "" ? "No licence text in the package." : notice}\n`;
  return [head, ...parts.map(one)].join("\n");
}
