// relay start as a process: what it says, how it refuses, how it stops.
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { runCommand, startCommand } from "../support/command.ts";

const base = mkdtempSync(join(tmpdir(), "relay-start-"));
afterAll(() => rmSync(base, { recursive: true }));
let folder: string;
beforeEach(() => (folder = mkdtempSync(join(base, "case-"))));

describe("relay start", () => {
  it("makes its keys for its owner alone, says once where, and never what", async () => {
    await using first = startCommand(["start", "--port", "0"], { cwd: folder });
    await first.waitFor(/listening at http:\/\/127\.0\.0\.1:\d+"/);
    for (const name of ["master", "signing", "publish-token"]) {
      const file = join(folder, "data", "keys", name);
      expect(first.stderr()).toContain(`"file":"${file}","msg":"made a key file"`);
      expect(statSync(file).mode & 0o777).toBe(0o600);
    }
    expect(statSync(join(folder, "data")).mode & 0o777).toBe(0o700);
    first.kill("SIGTERM");
    expect(await first.ended).toMatchObject({ code: 0, stdout: "" });
    await using second = startCommand(["start", "--port", "0"], { cwd: folder });
    await second.waitFor(/listening at/);
    expect(second.stderr()).not.toContain("made a key file");
    second.kill("SIGINT");
    expect((await second.ended).code).toBe(0);
  });

  it("refuses a folder that another relay uses with 75, and leaves that one alone", async () => {
    await using first = startCommand(["start", "--port", "0"], { cwd: folder });
    const [, url = ""] = await first.waitFor(/listening at (http[^\s"]+)["\n]/);
    const second = await runCommand(["start", "--port", "0"], { cwd: folder });
    expect(second).toMatchObject({ code: 75, stdout: "" });
    expect(second.stderr).toContain("another process");
    expect((await runCommand(["check", "--data"], { cwd: folder })).code).toBe(75);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });

  it("refuses a port that is taken with 69", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => void server.once("listening", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const refused = await runCommand(["start", "--port", String(port)], { cwd: folder });
      expect(refused).toMatchObject({ code: 69, stdout: "" });
      expect(refused.stderr).toContain(`127.0.0.1:${port}: another process listens there`);
    } finally {
      await new Promise((resolve) => void server.close(resolve));
    }
  });

  it("says why an address cannot be listened on", async () => {
    const refused = await runCommand(["start"], { cwd: folder, env: { RELAY_HOST: "192.0.2.1", RELAY_PORT: "18099" } });
    expect(refused).toMatchObject({
      code: 69,
      stderr: expect.stringContaining("it is not an address of this machine"),
    });
  });

  it.each(["0.0.0.0 ", " ", "not a host", "http://127.0.0.1", "127.0.0.1:8080"])(
    "refuses a host that is none (%j) instead of listening elsewhere",
    async (host) => {
      const refused = await runCommand(["start", "--port", "0"], { cwd: folder, env: { RELAY_HOST: host } });
      expect(refused).toMatchObject({ code: 78, stdout: "", stderr: expect.stringContaining(`"path":"RELAY_HOST"`) });
      expect(refused.stderr).not.toContain("listhen");
    },
  );

  it("makes no master key for a storage that belongs to one: it could open nothing", async () => {
    await using first = startCommand(["start", "--port", "0"], { cwd: folder });
    await first.waitFor(/listening at/);
    first.kill("SIGTERM");
    await first.ended;
    const file = join(folder, "data", "keys", "master");
    rmSync(file);
    const refused = await runCommand(["start", "--port", "0"], { cwd: folder });
    expect(refused).toMatchObject({ code: 78, stderr: expect.stringContaining(`put ${file} back`) });
    expect(existsSync(file)).toBe(false);
  });

  it("reads its secrets from files at each reload, not only at the start", async () => {
    const file = join(folder, "token");
    writeFileSync(file, "a-token-from-a-file");
    writeFileSync(join(folder, "relay.config.ts"), `export default { log: { level: "info" } };`);
    await using relay = startCommand(["start", "--port", "0"], {
      cwd: folder,
      env: { RELAY_PUBLISH_TOKEN_FILE: file },
    });
    await relay.waitFor(/listening at/);
    writeFileSync(join(folder, "relay.config.ts"), `export default { log: { level: "debug" } };`);
    relay.kill("SIGHUP");
    await relay.waitFor(/the config is (?:reloaded|refused)/);
    expect(relay.stdout() + relay.stderr()).toContain("the config is reloaded");
  });

  it("refuses a wrong config with 78 before it makes anything", async () => {
    const refused = await runCommand(["start"], { cwd: folder, env: { RELAY_PORT: "no", RELAY_MASTER_KEY: "short" } });
    expect(refused).toMatchObject({ code: 78, stdout: "" });
    expect(refused.stderr).toContain(`"path":"RELAY_PORT"`);
    expect(refused.stderr).toContain(`"path":"RELAY_MASTER_KEY"`);
    expect(existsSync(join(folder, "data"))).toBe(false);
  });

  const failing = (kind: string, key: string, body: string): void =>
    writeFileSync(
      join(folder, "relay.config.ts"),
      `const broken = { kind: "${kind}", name: "my-plugin", ${body} };
export default { server: { port: 0 }, ${key} };`,
    );

  it.each([
    ["storage", "storage: broken", `setup() { throw new TypeError("x is not a function"); }`, 78],
    ["source", "sources: [broken]", `setup: async () => { throw new Error("no folder is given"); }`, 78],
    ["auth", "auth: broken", `setup() { throw "no error at all"; }`, 78],
    ["transport", "transports: [broken]", `setup() { process.kill(999999999, 0); }`, 69],
    ["source", "sources: [broken]", `setup: () => ({ start() { throw new Error("cannot begin"); }, stop() {} })`, 78],
  ])("names a %s plug-in that cannot start, as no fault of the relay (%s, %s)", async (kind, key, body, code) => {
    failing(kind, key, body);
    const refused = await runCommand(["start"], { cwd: folder });
    expect(refused.code).toBe(code);
    expect(refused.stderr).toContain(`the ${kind} plug-in my-plugin cannot start: `);
    expect(refused.stderr).not.toMatch(/fault of relay|\n +at /);
  });

  it("shows where a plug-in threw at the log level debug", async () => {
    failing("storage", "storage: broken", `setup() { throw new Error("no folder is given"); }`);
    const env = { RELAY_LOG_LEVEL: "debug" };
    const refused = await runCommand(["start"], { cwd: folder, env });
    expect(refused.stderr).toMatch(/Error: no folder is given\\n +at .*relay\.config\.ts/);
    const checked = await runCommand(["check", "--data"], { cwd: folder, env });
    expect(checked.stderr).toMatch(/Error: no folder is given\n +at .*relay\.config\.ts/);
  });

  it("writes one JSON object a line where stderr is no terminal, from start to stop", async () => {
    type Line = Readonly<Record<string, unknown>>;
    const lines = (text: string): Line[] =>
      text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as Line);
    await using relay = startCommand(["start", "--port", "0"], { cwd: folder });
    await relay.waitFor(/listening at/);
    relay.kill("SIGTERM");
    const ran = lines((await relay.ended).stderr);
    const of = (msg: RegExp): Line | undefined => ran.find((line) => msg.test(String(line["msg"])));
    const folderOfData = join(folder, "data");
    expect(of(/^started/)).toMatchObject({ level: "info", folder: folderOfData, url: expect.stringMatching(/^http:/) });
    expect(of(/^stopping$/)).toMatchObject({ signal: "SIGTERM", time: expect.stringMatching(/^20\d\d-.*Z$/) });
    expect(ran.at(-1)).toMatchObject({ msg: "stopped", signal: "SIGTERM", durationMs: expect.any(Number) });
    const refused = await runCommand(["start"], { cwd: folder, env: { RELAY_PORT: "x" } });
    expect(lines(refused.stderr)).toMatchObject([
      { level: "error", path: "RELAY_PORT", msg: "a problem of the config" },
      { level: "error", exitCode: 78, msg: "cannot start" },
    ]);
    failing("source", "sources: [broken]", `setup() { throw new Error("no folder"); }`);
    expect(lines((await runCommand(["start"], { cwd: folder })).stderr).at(-1)).toMatchObject({
      detail: "the source plug-in my-plugin cannot start: no folder",
      exitCode: 78,
      msg: "cannot start",
    });
  });

  it("goes on, and ends calmly, when nobody reads what it writes any more", async () => {
    await using relay = startCommand(["start", "--port", "0"], { cwd: folder });
    const [, url = ""] = await relay.waitFor(/listening at (http[^\s"]+)["\n]/);
    relay.deafen();
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    relay.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
  });

  it("refuses two http() sources as a mistake of the config", async () => {
    const text = `import { http } from "relaybox"; export default { server: { port: 0 }, sources: [http(), http()] };`;
    writeFileSync(join(folder, "relay.config.ts"), text);
    const refused = await runCommand(["start"], { cwd: folder });
    expect(refused).toMatchObject({ code: 78, stderr: expect.stringContaining("sources[1]") });
  });

  it("ends at once at a second signal", async () => {
    // A source whose stop takes for ever keeps the first signal busy.
    const stuck = `const stuck = { kind: "source", name: "stuck", setup: () => ({ start() {}, stop: () => new Promise(() => setInterval(() => {}, 1000)) }) };
export default { server: { port: 0 }, sources: [stuck] };`;
    writeFileSync(join(folder, "relay.config.ts"), stuck);
    await using relay = startCommand(["start"], { cwd: folder });
    await relay.waitFor(/listening at/);
    relay.kill("SIGTERM");
    relay.kill("SIGINT");
    expect(["SIGTERM", "SIGINT", 130, 143]).toContain((await relay.ended).code);
  });
});

describe("relay check --data", () => {
  it("reads every record and finds the one that is damaged", async () => {
    writeFileSync(join(folder, "relay.config.ts"), "export default { server: { port: 0 } };");
    await using relay = startCommand(["start"], { cwd: folder });
    const [, url = ""] = await relay.waitFor(/listening at (http[^\s"]+)["\n]/);
    const published = await runCommand(["publish", "a:b", "--key", "k", "--url", url, "--id", "mine"], { cwd: folder });
    expect(published.code).toBe(0);
    relay.kill("SIGTERM");
    await relay.ended;
    const good = await runCommand(["check", "--data", "--json"], { cwd: folder });
    expect(good.code).toBe(0);
    expect(JSON.parse(good.stdout)).toMatchObject({ ok: true, records: { event: 1, eventid: 1 }, faults: [] });

    const { DatabaseSync } = await import("node:sqlite");
    const db = new DatabaseSync(join(folder, "data", "relay.db"));
    const [table] = db.prepare("select name from sqlite_master where type = 'table'").all() as { name: string }[];
    const columns = db.prepare(`select name from pragma_table_info('${table?.name}')`).all() as { name: string }[];
    const [key, value] = columns.map(({ name }) => name);
    db.exec(`update "${table?.name}" set "${value}" = 'torn' where "${key}" like 'event:%'`);
    db.close();
    const bad = await runCommand(["check", "--data"], { cwd: folder });
    expect(bad.code).toBe(65);
    expect(bad.stderr).toMatch(/event:k:\S+ cannot be read/);
  });
});
