// The files in deploy/ and the YAML of the documents can be parsed, name what they use, and hold configs that are right.
import { execFile } from "node:child_process";
import { access, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { ENTRY } from "../support/command.ts";
import { needs } from "../support/needs.ts";
import { TEST_ENV } from "../support/relay.ts";
import { startPostgres } from "../support/postgres.ts";

const root = resolve(import.meta.dirname, "../..");
interface Named {
  readonly name: string;
}
interface Container {
  readonly volumeMounts: readonly Named[];
}
interface Workload {
  readonly spec: {
    /** Of a StatefulSet. */
    readonly serviceName?: string;
    readonly selector: { readonly matchLabels: object };
    readonly template: {
      readonly metadata: { readonly labels: object };
      readonly spec: {
        readonly containers: readonly Container[];
        readonly volumes: readonly (Named & { readonly configMap?: Named })[];
      };
    };
    readonly volumeClaimTemplates?: readonly { readonly metadata: Named }[];
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
/** `relay check` asks the storage, too. */
const withoutServer = needs("postgres");

const read = (file: string): Promise<string> => readFile(join(root, file), "utf8");
const files = (await readdir(join(root, "deploy"), { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && !entry.parentPath.endsWith("/keys"))
  .map((entry) => join(relative(root, entry.parentPath), entry.name));
const inFolder = (folder: string): readonly string[] => files.filter((file) => file.startsWith(`deploy/${folder}/`));

describe("deploy/README.md", () => {
  it("leads to every file of its folder", async () => {
    const page = await read("deploy/README.md");
    for (const file of files) {
      if (file !== "deploy/README.md") expect(page).toContain(`](${file.slice("deploy/".length)})`);
    }
  });
});

describe("YAML", () => {
  it("can be parsed, in deploy/ and in the documents", async ({ skip }) => {
    skip(missing !== undefined, missing);
    for (const file of files.filter((name) => name.endsWith(".yaml"))) {
      const text = await read(file);
      expect(() => loadAll?.(text), file).not.toThrow();
    }
    for (const name of (await readdir(join(root, "docs"))).filter((one) => one.endsWith(".md"))) {
      for (const [, code = ""] of (await read(`docs/${name}`)).matchAll(/^```yaml\n([\s\S]*?)^```$/gm)) {
        expect(() => loadAll?.(code), name).not.toThrow();
      }
    }
  });
});

describe("a compose file", () => {
  it.for(inFolder("compose"))(
    "declares every volume, secret and config that its services use: %s",
    async (file, { skip }) => {
      skip(missing !== undefined, missing);
      const [compose] = (loadAll?.(await read(file)) ?? []) as [Tree];
      const declared = (what: string): string[] => Object.keys((compose[what] ?? {}) as Tree);
      for (const service of Object.values(compose["services"] as Tree) as Tree[]) {
        const volumes = ((service["volumes"] ?? []) as string[]).map((one) => one.split(":")[0]);
        expect(declared("volumes")).toEqual(expect.arrayContaining(volumes));
        expect(declared("secrets")).toEqual(expect.arrayContaining((service["secrets"] ?? []) as string[]));
        const configs = ((service["configs"] ?? []) as { readonly source: string }[]).map(({ source }) => source);
        expect(declared("configs")).toEqual(expect.arrayContaining(configs));
        for (const path of Object.values((service["environment"] ?? {}) as Tree).map(String)) {
          if (path.startsWith("/run/secrets/"))
            expect(declared("secrets")).toContain(path.slice("/run/secrets/".length));
        }
        const { build } = service as { readonly build?: string };
        if (build !== undefined) await access(join(root, "deploy/compose", build, "Dockerfile"));
      }
    },
  );
});

describe("the compose file of PostgreSQL", () => {
  it("has a config that relay check accepts, and scripts that a shell can read", async ({ skip }) => {
    skip(missing !== undefined, missing);
    const [compose] = (loadAll?.(await read("deploy/compose/postgres.yaml")) ?? []) as [Tree];
    const { relay, primary, standby } = compose["configs"] as Readonly<Record<string, { readonly content: string }>>;
    const folder = await mkdtemp(join(tmpdir(), "relay-deploy-"));
    try {
      await writeFile(join(folder, "relay.config.ts"), relay?.content ?? "");
      skip(withoutServer !== undefined, withoutServer);
      await using server = await startPostgres();
      const env = { ...TEST_ENV, PG_URL: server.url };
      const checked = await promisify(execFile)(process.execPath, [ENTRY, "check", "--json"], { cwd: folder, env });
      expect(JSON.parse(checked.stdout)).toMatchObject({ ok: true });
      for (const script of [primary, standby]) {
        // Compose makes one $ of two.
        await writeFile(join(folder, "script.sh"), script?.content.replaceAll("$$", "$") ?? "");
        await promisify(execFile)("bash", ["-n", join(folder, "script.sh")]);
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe("a Kubernetes manifest", () => {
  it.for(inFolder("kubernetes"))(
    "refers to what it defines, with a config that relay check accepts: %s",
    async (file, { skip }) => {
      skip(missing !== undefined, missing);
      const objects = (loadAll?.(await read(file)) ?? []) as Tree[];
      const of = <T>(...kinds: readonly string[]) => objects.find((one) => kinds.includes(String(one["kind"]))) as T;
      const service = of<Service>("Service");
      const config = of<ConfigMap>("ConfigMap");
      const set = of<Workload>("StatefulSet", "Deployment").spec;
      expect(set.selector.matchLabels).toEqual(set.template.metadata.labels);
      expect(service.spec.selector).toEqual(set.template.metadata.labels);
      if (set.serviceName !== undefined) expect(set.serviceName).toBe(service.metadata.name);
      const [container] = set.template.spec.containers as [Container];
      const claims = (set.volumeClaimTemplates ?? []).map(({ metadata }) => metadata);
      const named = [...set.template.spec.volumes, ...claims].map(({ name }) => name);
      expect(container.volumeMounts.map(({ name }) => name).toSorted()).toEqual(named.toSorted());
      const mounted = set.template.spec.volumes.find(({ name }) => name === "config");
      expect(mounted?.configMap?.name).toBe(config.metadata.name);
      const folder = await mkdtemp(join(tmpdir(), "relay-deploy-"));
      try {
        await writeFile(join(folder, "relay.config.ts"), config.data["relay.config.ts"] ?? "");
        const args = [ENTRY, "check", "--json"];
        const usesPostgres = config.data["relay.config.ts"]?.includes("PG_URL") === true;
        skip(usesPostgres && withoutServer !== undefined, withoutServer);
        await using server = usesPostgres ? await startPostgres() : undefined;
        const env = { ...(server && { ...TEST_ENV, PG_URL: server.url }) };
        const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env });
        expect(JSON.parse(stdout)).toMatchObject({ ok: true });
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  );
});

describe("the systemd unit", () => {
  const unit = "deploy/systemd/relay.service";

  it("has names and values alone, in sections that systemd knows", async () => {
    for (const file of inFolder("systemd")) {
      for (const line of (await read(file)).split("\n")) {
        expect(line, file).toMatch(/^(?:|#.*|\[(?:Unit|Service|Install)\]|[A-Z][A-Za-z]+=.*)$/);
      }
    }
  });

  it("leaves open what the relay cannot do without", async () => {
    const text = await read(unit);
    // Without netlink Node cannot list the machine's own addresses, which the guard must know.
    expect(text).toMatch(/^RestrictAddressFamilies=.*\bAF_NETLINK\b/m);
    expect(text).not.toMatch(/^MemoryDenyWriteExecute=(?:yes|true|1)/m);
    expect(text).toMatch(/^RestartPreventExitStatus=65 78$/m);
  });

  it("is shut in: systemd rates its exposure below 2", async ({ skip }) => {
    const args = ["security", "--offline=yes", "--threshold=20", join(root, unit)];
    const rated = await promisify(execFile)("systemd-analyze", args).then(
      () => "below 2",
      (error: { readonly code?: unknown; readonly stdout?: string }) =>
        error.code === "ENOENT" ? "absent" : String(error.stdout),
    );
    skip(rated === "absent", "there is no systemd-analyze here");
    expect(rated).toBe("below 2");
  });
});
