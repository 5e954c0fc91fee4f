// Finding and reading the config: which file counts, that it may stand anywhere, and what wins over what.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../config/load.ts";
import { ConfigError } from "../../config/problems.ts";

const base = mkdtempSync(join(tmpdir(), "relay-load-"));
afterAll(() => rmSync(base, { recursive: true }));
let folder: string;
let count = 0;
beforeEach(() => {
  folder = join(base, `case-${count++}`);
  mkdirSync(folder);
});

function write(name: string, text: string): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}
const define = (body: string): string =>
  `import { defineRelay } from "relaybox";\nexport default defineRelay(${body});\n`;
const port = async (env: Record<string, string>, flags = {}): Promise<number> =>
  (await loadConfig({ env, flags, cwd: folder })).plan.server.port;

async function refused(env: Record<string, string>): Promise<string> {
  const error: unknown = await loadConfig({ env, cwd: folder }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ConfigError);
  expect((error as ConfigError).exitCode).toBe(78);
  return (error as ConfigError).message;
}

describe("which config counts", () => {
  it("is --config, else RELAY_CONFIG, else ./relay.config.ts, else the default", async () => {
    expect(await port({})).toBe(8080);
    write("relay.config.ts", define("{ server: { port: 1 } }"));
    expect(await port({})).toBe(1);
    write("env.ts", define("{ server: { port: 2 } }"));
    expect(await port({ RELAY_CONFIG: "env.ts" })).toBe(2);
    write("flag.ts", define("{ server: { port: 3 } }"));
    expect(await port({ RELAY_CONFIG: "env.ts" }, { config: "flag.ts" })).toBe(3);
  });

  it("is overruled by the environment, and that by a flag", async () => {
    write("relay.config.ts", define("{ server: { port: 1 } }"));
    expect(await port({ RELAY_PORT: "2" })).toBe(2);
    expect(await port({ RELAY_PORT: "2" }, { port: 3 })).toBe(3);
  });

  it("is refused when the named file is not there or is a folder", async () => {
    expect(await refused({ RELAY_CONFIG: "nowhere.ts" })).toContain("no such file");
    expect(await refused({ RELAY_CONFIG: "." })).toContain("not a file");
  });
});

describe("a config file outside the project", () => {
  it("imports relaybox, whatever package.json stands beside it, with types in it", async () => {
    write("package.json", '{ "type": "commonjs", "name": "relaybox-not" }');
    const text = `import { defineRelay, memory, type RelayConfig } from "relaybox";
import { verifyHex } from "relaybox/verify";
const server: RelayConfig["server"] = { port: typeof verifyHex === "function" ? 42 : 0 };
export default defineRelay({ server, storage: memory() } satisfies RelayConfig);\n`;
    write("relay.config.ts", text);
    const { plan, file } = await loadConfig({ env: {}, cwd: folder });
    expect(plan.server.port).toBe(42);
    expect(plan.storage.name).toBe("memory");
    expect(file).toBe(join(folder, "relay.config.ts"));
  });

  it("has paths relative to itself, wherever the command runs", async () => {
    const file = write("deep/my.ts", define('{ dataDir: "./d" }'));
    const { plan } = await loadConfig({ env: {}, flags: { config: file }, cwd: "/" });
    expect(plan.dataDir).toBe(join(folder, "deep/d"));
    expect(plan.configDir).toBe(join(folder, "deep"));
    const given = await loadConfig({ env: { RELAY_DATA_DIR: "x" }, flags: { config: file }, cwd: folder });
    expect(given.plan.dataDir).toBe(join(folder, "x"));
  });

  it("may bring a plug-in of its own from a file beside it", async () => {
    write("bus.ts", 'export const bus = { kind: "transport", name: "bus", setup(): object { return {}; } };');
    write(
      "relay.config.ts",
      `import { bus } from "./bus.ts";\nimport { defineRelay, https } from "relaybox";\nexport default defineRelay({ transports: [https(), bus] });`,
    );
    expect((await loadConfig({ env: {}, cwd: folder })).plan.transports[1]?.name).toBe("bus");
  });

  it("may be a symbolic link, and have any name", async () => {
    const odd = write("real/a b#c%20?é.ts", define('{ dataDir: "./d", server: { port: 5 } }'));
    write("real/package.json", '{ "type": "commonjs" }');
    symlinkSync(odd, join(folder, "relay.config.ts"));
    const { plan } = await loadConfig({ env: {}, cwd: folder });
    expect(plan.server.port).toBe(5);
    expect(plan.dataDir).toBe(join(folder, "d"));
  });

  it("may load parts of a plug-in when it is set up, long after the config was read", async () => {
    write("part.ts", 'export { memory } from "relaybox";');
    const late = `const storage = { kind: "storage", name: "late", setup: async () => (await import("./part.ts")).memory().name };`;
    write("relay.config.ts", `${late}\nexport default { storage };`);
    const { plan } = await loadConfig({ env: {}, cwd: folder });
    expect(await plan.storage.setup(undefined as never)).toBe("memory");
  });

  it("may await at the top, be JavaScript, or be a plain object", async () => {
    write("a.ts", `const port = await Promise.resolve(7);\n${define("{ server: { port } }")}`);
    expect(await port({ RELAY_CONFIG: "a.ts" })).toBe(7);
    write("b.js", define("{ server: { port: 8 } }"));
    expect(await port({ RELAY_CONFIG: "b.js" })).toBe(8);
    write("c.mjs", "export default { server: { port: 9 } };");
    expect(await port({ RELAY_CONFIG: "c.mjs" })).toBe(9);
  });

  it.each([
    ["a syntax error", "export default {", "SyntaxError"],
    ["a throw", "throw new RangeError('too far');", "RangeError: too far"],
    ["a throw of no Error", "throw null;", "no Error"],
    ["a missing import", 'import "./gone.ts";\nexport default {};', "gone.ts"],
    ["a factory that is not there", 'import { mongo } from "relaybox";\nexport default {};', "mongo"],
    ["no default export", "export const relay = {};", "no default export"],
    ["a default that is no object", "export default 7;", "must be an object"],
    ["a function", "export default () => ({});", "must be an object"],
  ])("is refused for %s", async (_, text, told) => {
    write("relay.config.ts", text);
    expect(await refused({})).toContain(told);
  });

  it("says on which line it threw", async () => {
    write("relay.config.ts", "const a = 1;\n\nthrow new Error('here' + a);");
    expect(await refused({})).toContain("(line 3, column 7)");
  });
});
