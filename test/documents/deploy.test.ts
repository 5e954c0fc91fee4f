// The YAML of the documents can be parsed, names what it uses, and the configs inside it are right.
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
interface Named {
  readonly name: string;
}
interface Container {
  readonly volumeMounts: readonly Named[];
}
interface StatefulSet {
  readonly spec: {
    readonly serviceName: string;
    readonly selector: { readonly matchLabels: object };
    readonly template: {
      readonly metadata: { readonly labels: object };
      readonly spec: {
        readonly containers: readonly Container[];
        readonly volumes: readonly (Named & { readonly configMap: Named })[];
      };
    };
    readonly volumeClaimTemplates: readonly { readonly metadata: Named }[];
  };
}
interface Service {
  readonly metadata: Named;
  readonly spec: { readonly selector: object };
}
interface ConfigMap {
  readonly metadata: Named;
  readonly data: Readonly<Record<string, string>>;
}
type Tree = Readonly<Record<string, unknown>>;

/** js-yaml comes along with another package of ours; a tree without it is told so. */
function parser(): ((text: string) => readonly unknown[]) | undefined {
  try {
    const yaml = createRequire(import.meta.url)("js-yaml") as { loadAll(text: string): unknown[] };
    return yaml.loadAll;
  } catch (error) {
    if (process.env["CI"] === "true") throw error;
    return undefined;
  }
}
const loadAll = parser();
const missing = loadAll === undefined ? "needs js-yaml" : undefined;

const docs = (await readdir(join(root, "docs"))).filter((name) => name.endsWith(".md"));
const fences: { readonly place: string; readonly code: string }[] = [];
for (const name of docs) {
  const text = await readFile(join(root, "docs", name), "utf8");
  for (const match of text.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)) {
    fences.push({ place: `docs/${name}:${text.slice(0, match.index).split("\n").length}`, code: match[1] as string });
  }
}

describe("YAML in the documents", () => {
  it("can be parsed", ({ skip }) => {
    skip(missing !== undefined, missing);
    expect(fences.length).toBeGreaterThan(3);
    for (const { place, code } of fences) expect(() => loadAll?.(code), place).not.toThrow();
  });

  it("of compose files declares every volume and secret that its services use", ({ skip }) => {
    skip(missing !== undefined, missing);
    const files = fences
      .filter(({ code }) => code.includes("\nservices:"))
      .map(({ code }) => loadAll?.(code)[0] as Tree);
    expect(files.length).toBe(2);
    for (const file of files) {
      const declared = { volumes: Object.keys(file["volumes"] ?? {}), secrets: Object.keys(file["secrets"] ?? {}) };
      for (const service of Object.values(file["services"] as Tree) as Tree[]) {
        const volumes = ((service["volumes"] ?? []) as string[]).map((one) => one.split(":")[0]);
        expect(declared.volumes).toEqual(expect.arrayContaining(volumes));
        expect(declared.secrets).toEqual(expect.arrayContaining((service["secrets"] ?? []) as string[]));
        for (const path of Object.values((service["environment"] ?? {}) as Tree).map(String)) {
          if (path.startsWith("/run/secrets/")) expect(declared.secrets).toContain(path.slice("/run/secrets/".length));
        }
      }
    }
  });

  it("of Kubernetes refers to what it defines, and its config is accepted by relay check", async ({ skip }) => {
    skip(missing !== undefined, missing);
    const manifest = fences.find(({ code }) => code.startsWith("apiVersion"));
    const objects = (loadAll?.(manifest?.code ?? "") ?? []) as Tree[];
    const of = <T>(kind: string) => objects.find((one) => one["kind"] === kind) as T;
    const service = of<Service>("Service");
    const config = of<ConfigMap>("ConfigMap");
    const set = of<StatefulSet>("StatefulSet").spec;
    expect(set.selector.matchLabels).toEqual(set.template.metadata.labels);
    expect(service.spec.selector).toEqual(set.template.metadata.labels);
    expect(set.serviceName).toBe(service.metadata.name);
    const [container] = set.template.spec.containers as [Container];
    const volumes = [...set.template.spec.volumes, ...set.volumeClaimTemplates.map(({ metadata }) => metadata)];
    const named = volumes.map(({ name }) => name);
    for (const { name } of container.volumeMounts) expect(named).toContain(name);
    expect(set.template.spec.volumes[0]?.configMap.name).toBe(config.metadata.name);
    const folder = await mkdtemp(join(tmpdir(), "relay-yaml-"));
    try {
      await writeFile(join(folder, "relay.config.ts"), config.data["relay.config.ts"] ?? "");
      const args = [join(root, "core/cli/relay.mjs"), "check", "--json"];
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env: {} });
      expect(JSON.parse(stdout)).toMatchObject({ ok: true });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
