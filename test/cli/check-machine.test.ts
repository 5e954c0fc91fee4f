// relay check --machine: each check seen to pass and to fail, as a process and piece by piece.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { exitCode, type Finding } from "../../cli/check/finding.ts";
import { checkCertificates, checkFiles } from "../../cli/check/machine.ts";
import { makeAuthority } from "../../cli/support/certificates.ts";
import { resolvePlan } from "../../config/validate.ts";
import { refused, urlOf } from "../support/command-stage.ts";
import { runHere } from "../support/command-here.ts";
import { runCommand, startCommand } from "../support/command.ts";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";
import { freePort } from "../../tools/free-port.ts";
import { startRedis } from "../support/redis.ts";
import { TEST_KEYS } from "../support/relay.ts";

const newFolder = testFolders();
let folder: string;
let port: number;
beforeEach(async () => {
  folder = newFolder();
  port = await freePort();
});

/** Writes the config, in a new folder where there is one already: this process reads a file once. */
function config(body: string): void {
  if (existsSync(join(folder, "relay.config.ts"))) folder = newFolder();
  writeFileSync(
    join(folder, "relay.config.ts"),
    `import { redis } from "relaybox"; void redis; export default { server: { port: ${port} }, ${body} };`,
  );
}

/** Runs the command, and reads its findings. */
async function inspect(args: readonly string[] = [], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await runHere(["check", "--machine", "--json", ...args], { cwd: folder, env });
  expect(stderr).toBe("");
  const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: Finding[] };
  expect(ok).toBe(code === 0);
  return { code, findings, of: (check: string) => findings.filter((one) => one.check === check) };
}

/** Starts a relay in the folder, and ends it afterwards. */
async function onceStarted(meanwhile: (url: string) => Promise<void> = async () => undefined): Promise<void> {
  await using relay = startCommand(["start"], { cwd: folder });
  await meanwhile(await urlOf(relay));
  relay.kill("SIGTERM");
  await relay.ended;
}

const plan = (config: object) => resolvePlan(config, { configDir: folder, cwd: folder, settings: {} });

describe("relay check --machine", () => {
  it("finds nothing bad before the first start, and makes nothing", async () => {
    const found = await inspect();
    expect(found.findings.filter(({ state }) => state === "bad")).toEqual([]);
    expect(found.code).toBe(0);
    expect(readdirSync(folder)).toEqual([]);
    expect(found.findings.map(({ check }) => check)).toEqual(["folder", "disk", "open files", "storage", "address"]);
  });

  it("is written for people, with what to do", async () => {
    config("guard: {}");
    const { stdout, code } = await runCommand(["check", "--url", "https://127.0.0.1/"], { cwd: folder });
    expect(code).toBe(69);
    expect(stdout).toMatch(/^config +\S+relay\.config\.ts: in order$/m);
    expect(stdout).toMatch(/^ok {4}address {5}\S+ is free$/m);
    expect(stdout).toMatch(/^BAD {3}url .*IP_NOT_PUBLIC.*\n +→ .*guard: \{ allow: \["[^"]+"\] \}/m);
    expect(stdout).not.toContain("\u001b");
  });

  it("tells every problem of the config, and ends with 78", async () => {
    config("retries: 1, delivery: { concurrency: -1 }");
    const { code, of } = await inspect();
    expect(code).toBe(78);
    expect(await runHere(["check", "--machine"], { cwd: folder })).toMatchObject(refused(78, "delivery.concurrency: "));
    expect(of("config").map(({ found }) => found.split(":")[0])).toEqual(["delivery.concurrency", "retries"]);
  });

  it("finds keys that others may read, a folder that others may write to, and a key that is gone", async () => {
    config("");
    await onceStarted(async () => {
      const during = await inspect();
      expect(during.code).toBe(0);
      expect(during.of("address")[0]?.found).toContain("is taken, and a relay runs here");
      expect(during.of("storage")[0]?.found).toContain("a relay has it open");
      // From a folder that was never started nobody can say whose relay that is.
      const elsewhere = { cwd: newFolder(), env: { RELAY_PORT: String(port) } };
      const stdout = expect.stringContaining(`a relay listens on 127.0.0.1:${port}`);
      expect(await runHere(["check", "--machine"], elsewhere)).toMatchObject({ code: 0, stdout });
    });
    expect((await inspect()).of("master key")).toMatchObject([{ state: "good" }]);
    const data = join(folder, "data");
    chmodSync(join(data, "keys", "master"), 0o644);
    chmodSync(data, 0o777);
    const after = await inspect();
    expect(after.code).toBe(78);
    expect(after.of("modes").map(({ todo }) => todo)).toEqual([
      `chmod 700 ${data}`,
      `chmod 600 ${join(data, "keys", "master")}`,
    ]);
    writeFileSync(join(data, "keys", "master"), Buffer.alloc(32, 9).toString("base64"));
    expect((await inspect()).of("master key")).toMatchObject([
      { state: "bad", found: "is another than the one of this storage" },
    ]);
    rmSync(join(data, "keys", "master"));
    expect((await inspect()).of("master key")).toMatchObject([
      { state: "bad", todo: expect.stringContaining("backup") },
    ]);
  });

  it("does not judge keys that it may not read", async () => {
    config("");
    mkdirSync(join(folder, "data"), { mode: 0o700 });
    symlinkSync("keys", join(folder, "data", "keys"));
    expect((await inspect()).of("modes")).toMatchObject([
      { state: "warn", found: expect.stringContaining(`${join(folder, "data", "keys")} cannot be looked at`) },
    ]);
  });

  it("tells how far a new master key is: prepared, begun, over, and when a key has been replaced", async () => {
    config("");
    const file = (name: string): string => join(folder, "data", "keys", name);
    const other = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
    const state = async (env: Record<string, string> = {}) => {
      const { of, code } = await inspect([], env);
      const [one, ...more] = of("master key");
      expect(more).toEqual([]);
      return { ...one, code };
    };
    await onceStarted();
    const first = readFileSync(file("master"), "utf8").trim();
    expect(await state()).toEqual({ check: "master key", state: "good", found: "is the one of this storage", code: 0 });
    const under = (key: string, older?: string) =>
      state({ RELAY_MASTER_KEY: key, ...(older !== undefined && { RELAY_MASTER_KEY_OLDER: older }) });
    const more = expect.stringContaining("1 more may open what is sealed");
    expect(await under(first, other(7))).toMatchObject({ state: "good", found: more });
    expect(await under(other(7), `${other(8)},${first}`)).toMatchObject({ state: "warn", code: 0 });
    const unlike = "is another than the one of this storage, and so is the older one";
    expect(await under(other(7), other(8))).toMatchObject({ state: "bad", found: unlike, code: 78 });

    writeFileSync(file("master.next"), `${other(7)}\n`, { mode: 0o600 });
    expect(await state()).toMatchObject({
      state: "warn",
      found: expect.stringContaining("begun"),
      todo: expect.stringContaining("relay secrets rekey"),
      code: 0,
    });
    writeFileSync(file("master.next"), "no key");
    expect(await state()).toMatchObject({ state: "bad", found: expect.stringContaining("master.next is damaged") });
    writeFileSync(file("master.next"), `${other(7)}\n`);
    // It reads, and changes nothing.
    expect(readdirSync(join(folder, "data", "keys")).toSorted()).toEqual([
      "master",
      "master.next",
      "publish-token",
      "signing",
    ]);
    await onceStarted(async (url) => {
      const rekeyed = await runHere(["secrets", "rekey"], { cwd: folder, env: { RELAY_URL: url } });
      expect(rekeyed.code, rekeyed.stderr).toBe(0);
      // There is no subscription here. A relay that still seals by the old key answers the same: what it names is its own key.
      expect(rekeyed.stdout).toBe("0 subscriptions sealed again; all is sealed by the relay's present master key\n");
    });
    expect(await state()).toMatchObject({ state: "good", found: expect.stringContaining("1 that it replaced") });
    const replaced = expect.stringContaining("has been replaced");
    expect(await under(first)).toMatchObject({ state: "bad", found: replaced, code: 78 });
    rmSync(file("master.old"));
    expect(await state()).toMatchObject({ state: "good", found: "is the one of this storage" });
  });

  it("finds a folder that is a file, or is to be made below one", async () => {
    config("");
    writeFileSync(join(folder, "plain"), "");
    for (const dir of ["plain", "plain/data"]) {
      const found = await inspect(["--data-dir", dir]);
      expect(found.of("folder"), dir).toMatchObject([{ state: "bad", todo: expect.stringContaining("0700") }]);
      expect(found.code).toBe(78);
    }
  });

  it("finds an address that something else has", async () => {
    config("");
    const server = createServer((_, response) => response.writeHead(404).end());
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    try {
      expect((await inspect()).of("address")).toMatchObject([
        { state: "bad", found: expect.stringContaining("something else listens there") },
      ]);
      config(`server: { host: "192.0.2.1", port: ${port} }`);
      expect((await inspect()).of("address")).toMatchObject([
        { state: "bad", found: expect.stringContaining("EADDRNOTAVAIL") },
      ]);
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    }
  });

  it("reaches a URL through the guard, or says at which stage it did not", async () => {
    await using receiver = await startReceiver();
    writeFileSync(join(folder, "ca.pem"), receiver.ca);
    const dead = await freePort();
    const allow = `guard: { allow: ["127.0.0.1:*"]`;
    config(`${allow}, ca: "./ca.pem" }`);
    const urls = [receiver.url("/a"), `https://127.0.0.1:${dead}/`, "http://plain.example.com/"];
    const reached = await inspect(urls.flatMap((url) => ["--url", url]));
    expect(reached.code).toBe(69);
    expect(reached.of("url").map(({ state }) => state)).toEqual(["good", "bad", "bad"]);
    expect(reached.of("url")[0]?.found).toMatch(/127\.0\.0\.1 answers in \d+ ms, certificate until 20\d\d-/);
    expect(reached.of("url")[1]?.found).toContain("connect: ");
    expect(reached.of("guard.ca")).toMatchObject([{ state: "good" }]);
    expect(receiver.requests).toEqual([]);
    config(`${allow} }`);
    const untrusted = await inspect(["--url", receiver.url("/a")]);
    expect(untrusted.of("url")).toMatchObject([
      { state: "bad", found: expect.stringContaining("tls: "), todo: expect.stringContaining("guard.ca") },
    ]);
  });

  it("checks Redis: its settings, its clock, and whether it is there", { timeout: 240_000 }, async ({ skip }) => {
    const missing = needs("redis");
    skip(missing !== undefined, missing);
    const keys = {
      RELAY_MASTER_KEY: TEST_KEYS.master,
      RELAY_SIGNING_KEY: TEST_KEYS.signing,
      RELAY_PUBLISH_TOKEN: TEST_KEYS.publishToken,
    };
    await using redis = await startRedis({ config: { appendonly: "yes", appendfsync: "everysec" } });
    config(`storage: redis({ url: "${redis.url}" })`);
    const weak = await inspect([], keys);
    expect(weak.code).toBe(0);
    expect(weak.of("storage").some(({ state, todo }) => state === "warn" && todo?.includes("appendfsync"))).toBe(true);
    expect(weak.of("clock").at(-1)).toMatchObject({
      state: "good",
      found: expect.stringContaining("the storage's clock"),
    });
    await redis.command("CONFIG", "SET", "appendfsync", "always");
    expect((await inspect([], keys)).of("storage")).toMatchObject([{ state: "good", found: "redis: fsync" }]);
    await redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    await redis.command("CONFIG", "SET", "maxmemory", "100mb");
    const evicting = await inspect([], keys);
    expect(evicting.code).toBe(78);
    expect(evicting.of("storage")[0]?.found).toContain("noeviction");
    await redis.kill();
    expect((await runCommand(["check", "--machine"], { cwd: folder, env: keys })).code).toBe(69);
  });
});

describe("relay doctor", () => {
  it("is the former name of relay check --machine, and says so in its help", async () => {
    config("guard: {}");
    const [former, now] = await Promise.all(
      [["doctor"], ["check", "--machine"]].map((words) =>
        runHere([...words, "--json", "--url", "https://127.0.0.1/"], { cwd: folder }),
      ),
    );
    expect(former?.code).toBe(69);
    expect(JSON.parse(former?.stdout ?? "")).toEqual({ ...JSON.parse(now?.stdout ?? ""), findings: expect.any(Array) });
    expect((await runHere(["--help"], { cwd: folder })).stdout).toMatch(
      /^ {2}doctor +deprecated: relay check --machine$/m,
    );
  });
});

describe("relay check", () => {
  it("reads nothing but the config where it is not asked to, and not at records at the same time", async () => {
    config("guard: {}");
    writeFileSync(join(folder, "data"), "no folder");
    const { code, stdout } = await runHere(["check", "--json"], { cwd: folder });
    expect([code, Object.keys(JSON.parse(stdout) as object)]).toEqual([
      0,
      ["ok", "file", "problems", "warnings", "plan"],
    ]);
    expect(await runHere(["check", "--data", "--machine"], { cwd: folder })).toMatchObject({ code: 64, stdout: "" });
  });
});

describe("a check", () => {
  const now = Date.now();

  it("at open files asks for what a full house needs", () => {
    const small = plan({ server: { maxConnections: 1_000 }, delivery: { concurrency: 500 } });
    expect(checkFiles(small, 1_700).state).toBe("good");
    expect(checkFiles(small, 1_024)).toMatchObject({ state: "warn", todo: expect.stringContaining("1700") });
    expect(checkFiles(small, 256).state).toBe("bad");
    expect(checkFiles(small, Number.POSITIVE_INFINITY).state).toBe("good");
  });

  it("at authorities judges their dates, and certificates that are none", async () => {
    const authority = await makeAuthority(now);
    const leaf = await authority.issue(["127.0.0.1"]);
    writeFileSync(join(folder, "ca.pem"), authority.ca + leaf.cert);
    const given = plan({ guard: { ca: "./ca.pem" } });
    const states = async (at: number) => (await checkCertificates(given, at)).map(({ state }) => state);
    expect(await states(now)).toEqual(["good", "warn"]);
    expect(await states(now + 100 * 365 * 86_400_000)).toEqual(["bad", "bad"]);
    expect(await states(now - 100 * 365 * 86_400_000)).toEqual(["bad", "bad"]);
    writeFileSync(join(folder, "ca.pem"), "nothing");
    expect(await states(now)).toEqual(["bad"]);
  });

  it("at the server's certificate compares it with its key", async () => {
    const authority = await makeAuthority(now);
    const [one, two] = [await authority.issue(["127.0.0.1"]), await authority.issue(["127.0.0.1"])];
    for (const [name, text] of [
      ["one.pem", one.cert],
      ["one.key", one.key],
      ["two.key", two.key],
    ] as const)
      writeFileSync(join(folder, name), text);
    const server = (key: string) => plan({ server: { tls: { cert: "./one.pem", key } } });
    expect((await checkCertificates(server("./one.key"), now))[0]?.state).toBe("good");
    expect((await checkCertificates(server("./two.key"), now))[0]).toMatchObject({
      state: "bad",
      found: expect.stringContaining("is not the key of"),
    });
    expect(await checkCertificates(plan({}), now)).toEqual([]);
  });

  it("ends with 78 for what is wrong here, with 69 for what does not answer, and passes warnings", () => {
    const one = (state: Finding["state"], where?: Finding["where"]): Finding => ({
      check: "x",
      state,
      found: "",
      where,
    });
    expect(exitCode([one("good"), one("warn")])).toBe(0);
    expect(exitCode([one("bad", "outside"), one("warn")])).toBe(69);
    expect(exitCode([one("bad", "outside"), one("bad")])).toBe(78);
  });
});
