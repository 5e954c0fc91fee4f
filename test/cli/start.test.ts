// relay start as a process: what it says, how it refuses, how it stops.
import { existsSync, readFileSync, rmSync, statSync, writeFileSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ends, refused, urlOf } from "../support/command-stage.ts";
import { runHere } from "../support/command-here.ts";
import { runCommand, startCommand, type Ran, type Running } from "../support/command.ts";
import { testFolders } from "../support/folder.ts";

const newFolder = testFolders();
let folder: string;
beforeEach(() => (folder = newFolder()));
const run = (words: string, env: Readonly<Record<string, string>> = {}): Promise<Ran> =>
  runHere(words.split(" "), { cwd: folder, env });

type Line = Readonly<Record<string, unknown>>;
const lines = (text: string): Line[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);

it("a relay with threads in its config starts as one node, and warns of them", async () => {
  const config = `import { defineRelay } from "relaybox";\nexport default defineRelay({ threads: 4, server: { port: 0 } });\n`;
  writeFileSync(join(folder, "relay.config.ts"), config);
  await using relay = startCommand(["start"], { cwd: folder });
  await relay.waitFor(
    /"level":"warn".*"msg":"threads are gone; run several nodes on a local Redis, see docs\/nodes\.md"/,
  );
  await relay.waitFor(/listening at/);
  expect(await run("check")).toMatchObject(ends(0, "warning: threads: threads are gone; run"));
});

describe("a relay, from its first start on", () => {
  // One folder for all of this, in order.
  const home = newFolder();
  let relay: Running;
  let url: string;
  const inHome = (words: string): Promise<Ran> => runHere(words.split(" "), { cwd: home });
  const start = async (): Promise<void> => {
    relay = startCommand(["start", "--port", "0"], { cwd: home });
    url = await urlOf(relay);
  };
  beforeAll(start);
  afterAll(() => relay[Symbol.asyncDispose]());

  it("makes its keys for its owner alone, says once where, and never what", () => {
    for (const name of ["master", "signing", "publish-token"]) {
      const file = join(home, "data", "keys", name);
      expect(relay.stderr()).toContain(`"file":"${file}","msg":"made a key file"`);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(relay.stderr()).not.toContain(readFileSync(file, "utf8").trim());
    }
    expect(statSync(join(home, "data")).mode & 0o777).toBe(0o700);
  });

  it("keeps its folder: another one there is refused with 75, and it goes on", async () => {
    expect(await runCommand(["start", "--port", "0"], { cwd: home })).toMatchObject(refused(75, "another process"));
    expect((await inHome("check --data")).code).toBe(75);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect(await inHome(`publish a:b --key k --url ${url} --id mine`)).toMatchObject({ code: 0 });
  });

  it("is opened to no debugger by SIGUSR1, which other servers take for the rotation of a log", async () => {
    relay.kill("SIGUSR1");
    for (let i = 0; i < 5; i++) expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect(relay.stderr()).not.toMatch(/debugger|inspector/i);
  });

  it("ends with 0, and has written one JSON object a line, from start to stop", async () => {
    relay.kill("SIGTERM");
    const ended = await relay.ended;
    expect(ended).toMatchObject({ code: 0, stdout: "" });
    const ran = lines(ended.stderr);
    const of = (msg: RegExp): Line | undefined => ran.find((line) => msg.test(String(line["msg"])));
    expect(of(/^started/)).toMatchObject({
      level: "info",
      folder: join(home, "data"),
      url: expect.stringMatching(/^http:/),
    });
    expect(of(/^stopping$/)).toMatchObject({ signal: "SIGTERM", time: expect.stringMatching(/^20\d\d-.*Z$/) });
    expect(ran.at(-1)).toMatchObject({ msg: "stopped", signal: "SIGTERM", durationMs: expect.any(Number) });
  });

  it("makes no keys a second time; goes on, and ends calmly, when nobody reads what it writes any more", async () => {
    await start();
    expect(relay.stderr()).not.toContain("made a key file");
    relay.deafen();
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    relay.kill("SIGINT");
    expect((await relay.ended).code).toBe(0);
  });

  it("has every record of it read by relay check --data, which finds the one that is damaged", async () => {
    const good = await inHome("check --data --json");
    expect(good.code).toBe(0);
    expect(JSON.parse(good.stdout)).toMatchObject({ ok: true, records: { event: 1, eventid: 1 }, faults: [] });

    const { DatabaseSync } = await import("node:sqlite");
    const db = new DatabaseSync(join(home, "data", "relay.db"));
    const [table] = db.prepare("select name from sqlite_master where type = 'table'").all() as { name: string }[];
    const columns = db.prepare(`select name from pragma_table_info('${table?.name}')`).all() as { name: string }[];
    const [key, value] = columns.map(({ name }) => name);
    db.exec(`update "${table?.name}" set "${value}" = 'torn' where "${key}" like 'event:%'`);
    db.close();
    const bad = await runCommand(["check", "--data"], { cwd: home });
    expect(bad.code).toBe(65);
    expect(bad.stderr).toMatch(/event:k:\S+ cannot be read/);
  });

  it("makes no master key for a storage that belongs to one: it could open nothing", async () => {
    const file = join(home, "data", "keys", "master");
    rmSync(file);
    expect(await inHome("start --port 0")).toMatchObject(ends(78, `put ${file} back`));
    expect(existsSync(file)).toBe(false);
  });
});

describe("relay start", () => {
  it("says of a database that is damaged where it is and what to do, with 65", async () => {
    const file = join(folder, "data/relay.db");
    const damage = async (from: number, to: number): Promise<void> => {
      const bytes = readFileSync(file);
      writeFileSync(file, bytes.fill(0x5a, from, to));
      const ran = await run("start --port 0");
      expect(ran).toMatchObject(refused(65, file));
      expect(ran.stderr).toContain("restore a backup");
      expect(ran.stderr).not.toMatch(/malformed|is not a database|\bat \w+ \(/);
    };
    expect((await run("users add ada")).code).toBe(0);
    await damage(4_096, 16_384);
    expect(JSON.parse((await run("check --machine --json")).stdout)).toMatchObject({
      findings: expect.arrayContaining([
        expect.objectContaining({ check: "storage", todo: "set it up as the message says" }),
      ]),
    });
    await damage(0, 4_096);
  });

  it("refuses a port that is taken with 69", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => void server.once("listening", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      expect(await run(`start --port ${port}`)).toMatchObject(
        refused(69, `127.0.0.1:${port}: another process listens there`),
      );
    } finally {
      await new Promise((resolve) => void server.close(resolve));
    }
  });

  it("says why an address cannot be listened on", async () => {
    expect(await run("start", { RELAY_HOST: "192.0.2.1", RELAY_PORT: "18099" })).toMatchObject(
      ends(69, "it is not an address of this machine"),
    );
  });

  it.each(["0.0.0.0 ", " ", "not a host", "http://127.0.0.1", "127.0.0.1:8080"])(
    "refuses a host that is none (%j) instead of listening elsewhere",
    async (host) => {
      const ran = await run("start --port 0", { RELAY_HOST: host });
      expect(ran).toMatchObject(refused(78, `"path":"RELAY_HOST"`));
      expect(ran.stderr).not.toContain("listhen");
    },
  );

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

  it("reloads a config that prints, and a command's data holds nothing of it", async () => {
    const file = join(folder, "relay.config.ts");
    const printing = (level: string): string =>
      `console.log("printed by a library");\nexport default { log: { level: "${level}" } };`;
    writeFileSync(file, printing("info"));
    await using relay = startCommand(["start", "--port", "0"], { cwd: folder });
    await relay.waitFor(/listening at/);
    const token = await runCommand(["token"], { cwd: folder });
    expect(token).toMatchObject({ code: 0, stderr: "printed by a library\n" });
    expect(token.stdout).toMatch(/^[\w.-]+\n$/);
    writeFileSync(file, printing("debug"));
    relay.kill("SIGHUP");
    await relay.waitFor(/the config is (?:reloaded|refused)/);
    expect(relay.stdout() + relay.stderr()).toContain("the config is reloaded");
  });

  it("is not what relay check --data does: without a data folder that ends with 69 and makes none", async () => {
    expect(await run("check --data")).toMatchObject(refused(69, `there is no data folder ${join(folder, "data")}`));
    expect(readdirSync(folder)).toEqual([]);
  });

  it("refuses a config whose top-level await never ends, where the process would end without a word", async () => {
    writeFileSync(join(folder, "relay.config.ts"), "await new Promise(() => {});\nexport default {};");
    expect(await runCommand(["check"], { cwd: folder })).toMatchObject(
      refused(78, "top-level await waits for something that never comes"),
    );
  });

  it("refuses a wrong config with 78 before it makes anything", async () => {
    const ran = await runCommand(["start"], { cwd: folder, env: { RELAY_PORT: "no", RELAY_MASTER_KEY: "short" } });
    expect(ran).toMatchObject(refused(78, `"path":"RELAY_PORT"`));
    expect(ran.stderr).toContain(`"path":"RELAY_MASTER_KEY"`);
    expect(existsSync(join(folder, "data"))).toBe(false);
  });

  const config = (text: string): void => writeFileSync(join(folder, "relay.config.ts"), text);
  const failing = (kind: string, key: string, body: string): void =>
    config(`const broken = { kind: "${kind}", name: "my-plugin", ${body} };
export default { server: { port: 0 }, ${key} };`);

  it.each([
    ["storage", "storage: broken", `setup() { throw new TypeError("x is not a function"); }`, 78],
    ["source", "sources: [broken]", `setup: async () => { throw new Error("no folder is given"); }`, 78],
    ["auth", "auth: broken", `setup() { throw "no error at all"; }`, 78],
    ["transport", "transports: [broken]", `setup() { process.kill(999999999, 0); }`, 69],
    ["source", "sources: [broken]", `setup: () => ({ start() { throw new Error("cannot begin"); }, stop() {} })`, 78],
  ])("names a %s plug-in that cannot start, as no fault of the relay (%s, %s)", async (kind, key, body, code) => {
    failing(kind, key, body);
    const ran = await run("start");
    expect(ran.code).toBe(code);
    expect(ran.stderr).toContain(`the ${kind} plug-in my-plugin cannot start: `);
    expect(ran.stderr).not.toMatch(/fault of relay|\n +at /);
  });

  it("shows where a plug-in threw at the log level debug", async () => {
    failing("storage", "storage: broken", `setup() { throw new Error("no folder is given"); }`);
    const env = { RELAY_LOG_LEVEL: "debug" };
    const ran = await run("start", env);
    expect(ran.stderr).toMatch(/Error: no folder is given\\n +at .*relay\.config\.ts/);
    const checked = await run("check --data", env);
    expect(checked.stderr).toMatch(/Error: no folder is given\n +at .*relay\.config\.ts/);
  });

  it("ends though a plug-in that failed has left something running", async () => {
    const body = `setup() { setInterval(() => {}, 1_000); throw new Error("no folder is given"); }`;
    failing("storage", "storage: broken", body);
    expect(await runCommand(["start"], { cwd: folder })).toMatchObject({ code: 78 });
  }, 60_000);

  it("writes one JSON object a line where stderr is no terminal", async () => {
    const ran = await run("start", { RELAY_PORT: "x" });
    expect(lines(ran.stderr)).toMatchObject([
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

  it("refuses two http() sources as a mistake of the config", async () => {
    const text = `import { http } from "relaybox"; export default { server: { port: 0 }, sources: [http(), http()] };`;
    writeFileSync(join(folder, "relay.config.ts"), text);
    expect(await run("start")).toMatchObject(ends(78, "sources[1]"));
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
