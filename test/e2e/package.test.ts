// `npm pack`: what comes out is unpacked into a folder as an install would, with what it declares beside it and nothing else.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

interface Manifest {
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

let folder: string;
let user: string;
let own: string;
let manifest: Manifest;

const PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "relay-package-test-"));
  // From a copy of the sources, so that nobody changes them meanwhile.
  const tree = join(folder, "tree");
  await mkdir(tree);
  const files = [
    "core",
    "plugins",
    "config",
    "cli",
    "dashboard",
    "tools",
    "test/conformance",
    "package.json",
    "tsconfig.json",
  ];
  for (const part of [...files, ...PAGES, "relay.config.ts", "LICENSE", "docs", "deploy", "examples"])
    await cp(join(root, part), join(tree, part), { recursive: true });
  await symlink(join(root, "node_modules"), join(tree, "node_modules"));
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: tree });
  const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf("["))) as [{ filename: string }];

  user = join(folder, "user");
  own = join(user, "node_modules/relaybox");
  await mkdir(own, { recursive: true });
  await run("tar", ["-xzf", join(folder, filename), "-C", own, "--strip-components=1"]);
  manifest = JSON.parse(await readFile(join(own, "package.json"), "utf8")) as Manifest;
  const beside = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies });
  for (const name of [...beside, "@types/node", "undici-types"]) {
    const link = join(user, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", name), link);
  }
  await writeFile(join(user, "package.json"), '{ "type": "module" }\n');
}, 240_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

/** The example of docs/clients.md, as its readers copy it. */
async function clientExample(): Promise<string> {
  const page = await readFile(join(own, "docs/clients.md"), "utf8");
  return /^```ts client\n([^]*?)^```$/m.exec(page)?.[1] ?? expect.unreachable("the page has no example");
}

const command = (): string => join(own, manifest.bin["relaybox"] as string);

describe("the package", () => {
  it("holds what is needed and nothing else", async () => {
    const all = (await readdir(own, { recursive: true })).map((file) => file.replaceAll("\\", "/"));
    const odd = all.filter(
      (file) =>
        !/^(dist|package\.json|README\.md|LICENSE|CHANGELOG\.md|CONTRIBUTING\.md|docs|deploy|examples)/.test(file) ||
        (/\.test\.|bench|tools/.test(file) && !file.startsWith("examples/plugin-")),
    );
    expect(odd).toEqual([]);
    const sources = all.filter(
      (file) =>
        file.endsWith(".ts") &&
        !/\.d\.ts$|\/dashboard\/client\/|^examples\/|^dist\/package\/relay\.config\.ts$/.test(file),
    );
    expect(sources).toEqual([]);
    for (const file of [...PAGES, "LICENSE"]) expect(all).toContain(file);
  });

  it("holds every page and picture that its README leads to; the tests that prove it stay in the repository", async () => {
    const readme = await readFile(join(own, "README.md"), "utf8");
    const links = [...readme.matchAll(/\]\((?!https?:|#|test\/)([^)#\s]+)/g)].map(([, target]) => target as string);
    expect(links.length).toBeGreaterThan(10);
    for (const link of links) expect((await stat(join(own, link))).isFile(), link).toBe(true);
  });

  it("has a command of its own name, so that npx finds it", async () => {
    expect(manifest.bin["relay"]).toBe(manifest.bin["relaybox"]);
    expect((await stat(command())).mode & 0o111).not.toBe(0);
    const { stdout } = await run(process.execPath, [command(), "--version"], { cwd: user });
    expect(stdout).toBe(`relay ${manifest.version}\n`);
  });

  it("writes the commented config of the repository", async () => {
    await run(process.execPath, [command(), "init", "commented.ts"], { cwd: user });
    const written = await readFile(join(user, "commented.ts"), "utf8");
    expect(written).toBe(await readFile(join(root, "relay.config.ts"), "utf8"));
  });

  it("serves, with a config in TypeScript, the page and the reference", async () => {
    await writeFile(
      join(user, "relay.config.ts"),
      `import { defineRelay, sqlite } from "relaybox";
const port: number = 0;
export default defineRelay({ server: { port }, storage: sqlite(), log: { level: "warn" } });\n`,
    );
    const child = spawn(process.execPath, [command(), "start"], { cwd: user, stdio: ["ignore", "ignore", "pipe"] });
    const ended = once(child, "exit");
    let said = "";
    let url: string | undefined;
    for await (const part of child.stderr.setEncoding("utf8")) {
      said += String(part);
      url = /listening at (http[^\s"]+)["\n]/.exec(said)?.[1];
      if (url !== undefined) break;
    }
    expect(url, said).toBeDefined();
    const page = await (await fetch(`${url}/developers`)).text();
    const parts = [...new Set(page.match(/developers\/[\w.-]+/g))];
    expect(parts).toHaveLength(3);
    for (const path of [...parts.map((part) => `/${part}`), "/docs", "/openapi.json", "/readyz"]) {
      const got = await fetch(url + path);
      // A body that is not read keeps its connection.
      await got.arrayBuffer();
      expect(got.status, path).toBe(200);
    }
    await clientRuns(url as string);
    child.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
  });

  /** The example of docs/clients.md as JavaScript, on the oldest Node that is here. */
  async function clientRuns(url: string): Promise<void> {
    await writeFile(join(user, "client.mjs"), stripTypeScriptTypes(await clientExample()));
    const mint = await run(process.execPath, [command(), "token", "--mfa"], { cwd: user });
    const publishToken = await readFile(join(user, "data/keys/publish-token"), "utf8");
    const tokens = { RELAY_TOKEN: mint.stdout.trim(), RELAY_PUBLISH_TOKEN: publishToken.trim() };
    const env = { PATH: process.env["PATH"] ?? "", RELAY_URL: url, ...tokens };
    for (const node of ["/usr/bin/node", "/usr/local/bin/node", process.execPath].filter((one) => existsSync(one))) {
      const { stdout } = await run(node, ["client.mjs"], { cwd: user, env });
      expect(stdout, node).toMatch(/^created sub_\w+\n(?:replayed .*\n)*rotated sub_\w+\n$/);
    }
  }

  it("has types that resolve and hold, without leniency", async () => {
    await writeFile(
      join(user, "use.ts"),
      `${await clientExample()}
import { defineRelay, type Plugin, type RelayConfig, sqlite, type Transport } from "relaybox";
import { verifyHex, verifyStandard } from "relaybox/verify";
import { describeStorage, describeTransport, type StorageHarness } from "relaybox/conformance";
export const config: RelayConfig = defineRelay({ storage: sqlite({ dir: "./data" }) });
export const good: boolean = verifyHex(Buffer.from(""), {}, "") && verifyStandard(Buffer.from(""), {}, "");
export declare const transport: Plugin<"transport", Transport>;
export const laws: readonly unknown[] = [describeStorage, describeTransport];
export declare const harness: StorageHarness;
// @ts-expect-error there is no such key: what resolves is no mere any
defineRelay({ nonsense: true });\n`,
    );
    const options = { module: "nodenext", target: "es2024", lib: ["es2024", "esnext.disposable"], types: ["node"] };
    const compilerOptions = { ...options, strict: true, noEmit: true, skipLibCheck: true };
    await writeFile(join(user, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["use.ts"] }));
    const said = await run(join(root, "node_modules/.bin/tsc"), ["-p", user, "--traceResolution"], {
      maxBuffer: 1 << 27,
    });
    const errors = said.stdout.split("\n").filter((line) => line.includes("error TS"));
    expect(errors).toEqual([]);
    // A name in our types that does not resolve makes them `any`, and nobody says so.
    const asked =
      /={8} Resolving module '(?!node:)([^']+)' from '[^']*\/node_modules\/relaybox\/(?!node_modules)[^']*'[^]*?={8} Module name '[^']+' was (\w+)/g;
    const found = [...said.stdout.matchAll(asked)];
    expect(found.length).toBeGreaterThan(20);
    const lost = found.filter(([, , how]) => how === "not").map(([, name]) => name);
    expect(lost).toEqual([]);
  });

  it("writes packages of each kind of plug-in, whose types and own tests hold", { timeout: 240_000 }, async () => {
    const kinds = ["source", "transport", "auth", "observer", "storage"];
    const made = (kind: string): string => join(user, `my-${kind}`);
    const tools = join(root, "node_modules/.bin");
    const init = (kind: string) =>
      run(process.execPath, [command(), "init", "--plugin", kind, made(kind)], { cwd: user });
    await Promise.all(kinds.map(init));
    await expect(init("source")).rejects.toMatchObject({ code: 1 });
    // A shell can set the variable.
    expect(await readFile(join(made("source"), "README.md"), "utf8")).toContain('env: "MY_SOURCE_TOKEN"');
    // They have the same settings, so one run of the compiler checks all of them, and one builds for all of them.
    const settings = (kind: string, name: string) => readFile(join(made(kind), name), "utf8");
    for (const name of ["tsconfig.json", "tsconfig.build.json"])
      expect(new Set(await Promise.all(kinds.map((kind) => settings(kind, name)))).size).toBe(1);
    const all = { extends: "./my-source/tsconfig.json", include: kinds.map((kind) => `my-${kind}`) };
    await writeFile(join(user, "tsconfig.all.json"), JSON.stringify(all));
    const files = (await run(join(tools, "tsc"), ["-p", join(user, "tsconfig.all.json"), "--listFiles"])).stdout;
    for (const kind of kinds)
      for (const file of ["src/index.ts", "test/index.test.ts"]) expect(files).toContain(`/my-${kind}/${file}`);
    await run(join(tools, "tsc"), ["-p", join(made("storage"), "tsconfig.build.json")]);
    expect(await readdir(join(made("storage"), "dist"))).toEqual(["index.d.ts", "index.js"]);
    // Without what this run of vitest has put into the environment. A test that fails rejects.
    const { PATH = "", HOME = "" } = process.env;
    const tests = async (...args: readonly string[]): Promise<string> => {
      const options = { cwd: user, env: { PATH, HOME, NO_COLOR: "1" } };
      return (await run(join(tools, "vitest"), ["run", ...args], options)).stdout;
    };
    // The laws over a driver that writes files take minutes; they are run for `unstorage(fs-lite)`.
    const quick = "^(?!my-storage keeps the law)";
    expect(await tests(...kinds.map(made), "-t", quick)).toMatch(/Test Files +5 passed/);
    for (const kind of kinds) await rm(made(kind), { recursive: true });
  });

  it("asks for the bundler where it is missing", async () => {
    const bundler = join(user, "node_modules/rolldown");
    await rm(bundler);
    const failed = (await run(process.execPath, [command(), "build"], { cwd: user }).catch(
      (error: unknown) => error,
    )) as { code: number; stderr: string };
    await symlink(join(root, "node_modules/rolldown"), bundler);
    expect(failed.code).toBe(69);
    expect(failed.stderr).toContain("npm install --save-dev rolldown");
  });

  it("can build an executable", async () => {
    await writeFile(join(user, "late.ts"), `export const events: readonly string[] = ["packed:in"];\n`);
    await writeFile(
      join(user, "built.config.ts"),
      `import { defineRelay, memory } from "relaybox";
import { events } from "./late.ts";
export default defineRelay({ storage: memory(), events });\n`,
    );
    const args = [command(), "build", "--config", "built.config.ts", "--out", "relay"];
    // Without `strip`, which is tried where it is there.
    await run(process.execPath, args, { cwd: user, env: { PATH: "/nowhere" } });
    const empty = join(user, "empty");
    await mkdir(empty);
    const { stdout } = await run(join(user, "relay"), ["check"], { cwd: empty, env: {} });
    expect(stdout).toMatch(/storage +memory/);
    const sbom = JSON.parse(await readFile(join(user, "relay.sbom.json"), "utf8")) as {
      components: { name: string }[];
    };
    const names = sbom.components.map(({ name }) => name);
    expect(names).toContain("undici");
    expect(names).not.toContain("relaybox");
  });
});
