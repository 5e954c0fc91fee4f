/** What an executable is made of: an SBOM (CycloneDX 1.6) and the licences of all that is in it. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const OWN = fileURLToPath(new URL("../../..", import.meta.url)).replace(/[\\/]$/, "");

export interface Part {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly notice: string;
}

/** The packages that the files of a bundle belong to, by name. */
export async function partsOf(files: readonly string[]): Promise<readonly Part[]> {
  const folders = new Map<string, string[]>();
  for (const file of files) {
    // Of packages within packages the innermost; our own, where it is an installed one, is none of its parts.
    const [, folder, rest = ""] = /^(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)([\\/].*)/.exec(file) ?? [];
    if (folder === undefined || OWN.startsWith(folder)) continue;
    const own = folders.get(folder) ?? [];
    folders.set(folder, [...own, `${folder}${rest}.LICENSE.txt`]);
  }
  const parts = await Promise.all([...folders].map(([folder, more]) => partAt(folder, more)));
  const once = new Map(parts.map((part) => [`${part.name}@${part.version}`, part]));
  return [...once.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** @param more where a file that is itself a bundle names what went into it, if it does */
async function partAt(folder: string, more: readonly string[]): Promise<Part> {
  const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as {
    name: string;
    version: string;
    license?: string | { type: string };
  };
  const license = typeof manifest.license === "object" ? manifest.license.type : manifest.license;
  const file = (await readdir(folder)).find((name) => /^(licen[sc]e|copying)(\.|$|-)/i.test(name));
  const texts = (file === undefined ? more : [join(folder, file), ...more]).map((path) =>
    readFile(path, "utf8").catch(() => ""),
  );
  const notice = (await Promise.all(texts)).filter((text) => text !== "").join("\n");
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
