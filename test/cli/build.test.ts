// `relay build`: the executable is made once, and then used as on a machine without Node.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundle } from "../../core/cli/build/bundle.ts";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);
/** No Node, no npm, nothing of ours. */
const env = { PATH: "/nowhere" };

let folder: string;
let relay: string;
let built: { bytes: number; bundleSha256: string };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "relay-build-test-"));
  relay = join(folder, "relay");
  await writeFile(join(folder, "names.ts"), `export const names: readonly string[] = ["built:in"];\n`);
  await writeFile(
    join(folder, "mine.config.ts"),
    `import { defineRelay, sqlite } from "relaybox";
import { names } from "./names.ts";
export default defineRelay({ storage: sqlite(), server: { port: 0 }, events: names, log: { level: "warn" } });\n`,
  );
  const args = [join(root, "core/cli/relay.mjs"), "build", "--config", "mine.config.ts", "--out", relay, "--json"];
  const { stdout } = await run(process.execPath, args, { cwd: folder });
  built = JSON.parse(stdout) as typeof built;
}, 120_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

const inFolder = async (name: string): Promise<string> => {
  const made = join(folder, name);
  await mkdir(made);
  return made;
};

describe("the executable", () => {
  it("is small enough, and comes with its licences and a bill of materials", async () => {
    expect((await stat(relay)).size).toBe(built.bytes);
    expect(built.bytes).toBeLessThanOrEqual(140e6);
    const sbom = JSON.parse(await readFile(`${relay}.sbom.json`, "utf8")) as {
      bomFormat: string;
      components: { name: string; version: string }[];
    };
    expect(sbom.bomFormat).toBe("CycloneDX");
    const names = sbom.components.map(({ name }) => name);
    for (const name of ["node", "undici", "h3", "jose", "pino"]) expect(names).toContain(name);
    for (const name of ["vitest", "rolldown", "typescript"]) expect(names).not.toContain(name);
    expect(await readFile(`${relay}.licenses.txt`, "utf8")).toContain("Permission is hereby granted");
  });

  it("is the same again from the same input", async () => {
    const again = await bundle(root, join(folder, "mine.config.ts"));
    expect(again.hash).toBe(built.bundleSha256);
    expect(again.code).not.toContain(folder);
    expect(again.code).not.toContain(root);
  });

  it("starts with the config that is built in, keeps events on disk and ends calmly", async () => {
    const cwd = await inFolder("start");
    const child = spawn(relay, ["start"], { cwd, env, stdio: ["ignore", "ignore", "pipe"] });
    const ended = once(child, "exit");
    let said = "";
    let url: string | undefined;
    for await (const part of child.stderr.setEncoding("utf8")) {
      said += String(part);
      url = /listening at (http\S+)/.exec(said)?.[1];
      if (url !== undefined) break;
    }
    expect(url, said).toBeDefined();
    const publish = async (type: string): Promise<number> => {
      const token = (await readFile(join(cwd, "data/keys/publish-token"), "utf8")).trim();
      const answer = await fetch(`${url}/events`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ type, keyId: "key_1", data: 1 }),
      });
      await answer.arrayBuffer();
      return answer.status;
    };
    expect(await publish("built:in")).toBe(202);
    expect(await publish("not:named")).toBe(400);
    expect((await stat(join(cwd, "data/relay.db"))).size).toBeGreaterThan(0);
    child.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
  });

  it("reads an outside config in TypeScript, with relaybox being itself", async () => {
    const cwd = await inFolder("outside");
    const text = (port: string) =>
      `import { defineRelay, memory } from "relaybox";
const port: number = ${port};
export default defineRelay({ server: { port }, storage: memory() });\n`;
    await writeFile(join(cwd, "relay.config.ts"), text("4711"));
    const { stdout } = await run(relay, ["check"], { cwd, env });
    expect(stdout).toMatch(/storage +memory/);
    expect(stdout).toContain("127.0.0.1:4711");
    await writeFile(join(cwd, "relay.config.ts"), text("70_000"));
    await expect(run(relay, ["check"], { cwd, env })).rejects.toMatchObject({ code: 78 });
  });

  it("does not pretend to be able to build another", async () => {
    await expect(run(relay, ["build"], { cwd: folder, env })).rejects.toMatchObject({ code: 69 });
  });
});
