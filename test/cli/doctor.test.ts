// relay doctor: each check seen to pass and to fail, as a process and piece by piece.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { exitCode, type DoctorFinding } from "../../core/cli/doctor/finding.ts";
import { checkFiles, checkLibraries, checkOwnCertificate, checkTrust } from "../../core/cli/doctor/machine.ts";
import { checkDns } from "../../core/cli/doctor/outside.ts";
import { processEnvironment } from "../../core/cli/support/environment.ts";
import { makeAuthority } from "../../core/cli/support/certificates.ts";
import { resolvePlan } from "../../config/validate.ts";
import { runHere } from "../support/command-here.ts";
import { runCommand, startCommand } from "../support/command.ts";
import { startNameServer } from "../support/nameserver.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";
import { freePort } from "../../tools/free-port.ts";
import { startRedis } from "../support/redis.ts";
import { TEST_KEYS } from "../support/relay.ts";

const base = mkdtempSync(join(tmpdir(), "relay-doctor-"));
afterAll(() => rmSync(base, { recursive: true }));
let folder: string;
let port: number;
beforeEach(async () => {
  folder = mkdtempSync(join(base, "case-"));
  port = await freePort();
});

/** Writes the config, in a new folder where there is one already: this process reads a file once. */
function config(body: string): void {
  if (existsSync(join(folder, "relay.config.ts"))) folder = mkdtempSync(join(base, "case-"));
  writeFileSync(
    join(folder, "relay.config.ts"),
    `import { redis } from "relaybox"; void redis; export default { server: { port: ${port} }, ${body} };`,
  );
}

async function doctor(args: readonly string[] = [], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await runHere(["doctor", "--json", ...args], { cwd: folder, env });
  expect(stderr).toBe("");
  const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: DoctorFinding[] };
  expect(ok).toBe(code === 0);
  return { code, findings, of: (check: string) => findings.filter((one) => one.check === check) };
}

const plan = (config: object) => resolvePlan(config, { configDir: folder, cwd: folder, settings: {} });

describe("relay doctor", () => {
  it("finds nothing bad before the first start, and makes nothing", async () => {
    const found = await doctor();
    expect(found.findings.filter(({ state }) => state === "bad")).toEqual([]);
    expect(found.code).toBe(0);
    expect(readdirSync(folder)).toEqual([]);
    for (const check of ["node", "config", "folder", "disk", "open files", "tls trust", "address", "storage", "dns"]) {
      expect(found.of(check), check).not.toEqual([]);
    }
  });

  it("is written for people, with what to do", async () => {
    config("guard: {}");
    const { stdout, code } = await runCommand(["doctor", "--url", "https://127.0.0.1/"], { cwd: folder });
    expect(code).toBe(69);
    expect(stdout).toMatch(/^ok {4}config {6}\S+relay\.config\.ts$/m);
    expect(stdout).toMatch(/^BAD {3}url .*IP_NOT_PUBLIC.*\n +→ .*guard: \{ allow: \["[^"]+"\] \}/m);
    expect(stdout).not.toContain("\u001b");
  });

  it("tells every problem of the config, and ends with 78", async () => {
    config("retries: 1, delivery: { concurrency: -1 }");
    const { code, of } = await doctor();
    expect(code).toBe(78);
    expect(of("config").map(({ found }) => found.split(":")[0])).toEqual(["delivery.concurrency", "retries"]);
  });

  it("finds keys that others may read, a folder that others may write to, and a key that is gone", async () => {
    config("");
    await using relay = startCommand(["start"], { cwd: folder });
    await relay.waitFor(/listening at/);
    const during = await doctor();
    expect(during.code).toBe(0);
    expect(during.of("address")[0]?.found).toContain("this relay listens");
    // A folder that was never started, and one whose relay has keys of its own.
    const here = during.of("address")[0]?.found.split(" on ")[1];
    const other = mkdtempSync(join(base, "other-"));
    const there = (args: readonly string[]) =>
      runHere(["doctor", ...args], { cwd: other, env: { RELAY_PORT: String(port) } });
    expect(await there([])).toMatchObject({
      code: 78,
      stdout: expect.stringContaining(`another relay listens on ${here}`),
    });
    mkdirSync(join(other, "data", "keys"), { recursive: true, mode: 0o700 });
    writeFileSync(join(other, "data", "keys", "signing"), Buffer.alloc(32, 7).toString("base64"), { mode: 0o600 });
    expect((await there([])).stdout).toContain(`another relay listens on ${here}`);
    expect(during.of("storage")[0]?.found).toContain("a relay has it open");
    relay.kill("SIGTERM");
    await relay.ended;
    expect((await doctor()).of("master key")).toMatchObject([{ state: "good" }]);
    const data = join(folder, "data");
    chmodSync(join(data, "keys", "master"), 0o644);
    chmodSync(data, 0o777);
    const after = await doctor();
    expect(after.code).toBe(78);
    expect(after.of("modes").map(({ todo }) => todo)).toEqual([
      `chmod 600 ${join(data, "keys", "master")}`,
      `chmod 700 ${data}`,
    ]);
    writeFileSync(join(data, "keys", "master"), Buffer.alloc(32, 9).toString("base64"));
    expect((await doctor()).of("master key")).toMatchObject([
      { state: "bad", found: "is another than the one of this storage" },
    ]);
    rmSync(join(data, "keys", "master"));
    expect((await doctor()).of("master key")).toMatchObject([
      { state: "bad", todo: expect.stringContaining("backup") },
    ]);
  });

  it("does not judge keys and a relay that it may not look at", async () => {
    config("");
    const data = join(folder, "data");
    mkdirSync(join(data, "keys", "signing"), { recursive: true, mode: 0o700 });
    // What answers as a relay does, and a signing key that cannot be read, as that of another user.
    const server = createServer((_, response) => response.end());
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    try {
      expect((await doctor()).of("address")).toMatchObject([
        { state: "warn", found: expect.stringContaining("no token can be signed") },
      ]);
      rmSync(join(data, "keys"), { recursive: true });
      symlinkSync("keys", join(data, "keys"));
      expect((await doctor()).of("modes")).toMatchObject([
        { state: "warn", found: expect.stringContaining(`${join(data, "keys")} cannot be looked at (ELOOP)`) },
      ]);
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    }
  });

  it("tells how far a new master key is: prepared, begun, over, and when a key has been replaced", async () => {
    config("");
    const file = (name: string): string => join(folder, "data", "keys", name);
    const other = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
    const state = async (env: Record<string, string> = {}) => {
      const { of, code } = await doctor([], env);
      const [one, ...more] = of("master key");
      expect(more).toEqual([]);
      return { ...one, code };
    };
    {
      await using relay = startCommand(["start"], { cwd: folder });
      await relay.waitFor(/listening at/);
      relay.kill("SIGTERM");
      await relay.ended;
    }
    const first = readFileSync(file("master"), "utf8").trim();
    expect(await state()).toEqual({ check: "master key", state: "good", found: "is the one of this storage", code: 0 });
    expect(await state({ RELAY_MASTER_KEY: first, RELAY_MASTER_KEY_OLDER: other(7) })).toMatchObject({
      state: "good",
      found: expect.stringContaining("1 more may open what is sealed"),
    });
    expect(await state({ RELAY_MASTER_KEY: other(7), RELAY_MASTER_KEY_OLDER: `${other(8)},${first}` })).toMatchObject({
      state: "warn",
      code: 0,
    });
    expect(await state({ RELAY_MASTER_KEY: other(7), RELAY_MASTER_KEY_OLDER: other(8) })).toMatchObject({
      state: "bad",
      found: "is another than the one of this storage, and so is the older one",
      code: 78,
    });

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
    // It looks, and changes nothing.
    expect(readdirSync(join(folder, "data", "keys")).toSorted()).toEqual([
      "master",
      "master.next",
      "publish-token",
      "signing",
    ]);
    {
      await using relay = startCommand(["start"], { cwd: folder });
      const [, url = ""] = await relay.waitFor(/listening at (http[^\s"]+)["\n]/);
      const rekeyed = await runHere(["secrets", "rekey"], { cwd: folder, env: { RELAY_URL: url } });
      expect(rekeyed.code, rekeyed.stderr).toBe(0);
      // There is no subscription here. A relay that still seals by the old key answers the same: what it names is its own key.
      expect(rekeyed.stdout).toBe("0 subscriptions sealed again; all is sealed by the relay's present master key\n");
      relay.kill("SIGTERM");
      await relay.ended;
    }
    expect(await state()).toMatchObject({ state: "good", found: expect.stringContaining("1 that it replaced") });
    expect(await state({ RELAY_MASTER_KEY: first })).toMatchObject({
      state: "bad",
      found: expect.stringContaining("has been replaced"),
      code: 78,
    });
    rmSync(file("master.old"));
    expect(await state()).toMatchObject({ state: "good", found: "is the one of this storage" });
  });

  it("finds a clock that was set back, and a folder that is a file", async () => {
    config("");
    mkdirSync(join(folder, "data"), { mode: 0o700 });
    writeFileSync(join(folder, "data", "relay.log"), "");
    const later = Date.now() / 1_000 + 3_600;
    utimesSync(join(folder, "data", "relay.log"), later, later);
    expect((await doctor()).of("clock")).toMatchObject([
      { state: "bad", found: expect.stringMatching(/3[56]\d\d\.\d s ahead/) },
    ]);
    writeFileSync(join(folder, "plain"), "");
    const found = await doctor(["--data-dir", "plain"]);
    expect(found.of("folder")).toMatchObject([{ state: "bad" }]);
    expect(found.code).toBe(78);
  });

  it("finds an address that something else has", async () => {
    config("");
    const server = createServer((_, response) => response.writeHead(404).end());
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    try {
      expect((await doctor()).of("address")).toMatchObject([{ state: "bad", found: expect.stringContaining("taken") }]);
      config(`server: { host: "192.0.2.1", port: ${port} }`);
      expect((await doctor()).of("address")).toMatchObject([
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
    const reached = await doctor([
      "--url",
      receiver.url("/a"),
      "--url",
      `https://127.0.0.1:${dead}/`,
      "--url",
      "http://plain.example.com/",
    ]);
    expect(reached.code).toBe(69);
    expect(reached.of("url").map(({ state }) => state)).toEqual(["good", "bad", "bad"]);
    expect(reached.of("url")[0]?.found).toMatch(/127\.0\.0\.1 answers in \d+ ms, TLSv1\.3, certificate until 20\d\d-/);
    expect(reached.of("url")[1]?.found).toContain("connect: ");
    expect(reached.of("guard.ca")).toMatchObject([{ state: "good" }]);
    expect(receiver.requests).toEqual([]);
    config(`${allow} }`);
    const untrusted = await doctor(["--url", receiver.url("/a")]);
    expect(untrusted.of("url")).toMatchObject([
      { state: "bad", found: expect.stringContaining("tls: "), todo: expect.stringContaining("guard.ca") },
    ]);
  });

  it("looks at Redis: its settings, its clock, and whether it is there", { timeout: 240_000 }, async ({ skip }) => {
    const missing = needs("redis");
    skip(missing !== undefined, missing);
    const keys = {
      RELAY_MASTER_KEY: TEST_KEYS.master,
      RELAY_SIGNING_KEY: TEST_KEYS.signing,
      RELAY_PUBLISH_TOKEN: TEST_KEYS.publishToken,
    };
    await using redis = await startRedis({ config: { appendonly: "yes", appendfsync: "everysec" } });
    config(`storage: redis({ url: "${redis.url}" })`);
    const weak = await doctor([], keys);
    expect(weak.code).toBe(0);
    expect(weak.of("storage").some(({ state, todo }) => state === "warn" && todo?.includes("appendfsync"))).toBe(true);
    expect(weak.of("clock").at(-1)).toMatchObject({
      state: "good",
      found: expect.stringContaining("the storage's clock"),
    });
    await redis.command("CONFIG", "SET", "appendfsync", "always");
    expect((await doctor([], keys)).of("storage")).toMatchObject([
      // The command itself is no relay.
      { state: "good", found: expect.stringMatching(/fsync.*\bnodes 0\b/) },
    ]);
    await redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    await redis.command("CONFIG", "SET", "maxmemory", "100mb");
    const evicting = await doctor([], keys);
    expect(evicting.code).toBe(78);
    expect(evicting.of("storage")[0]?.found).toContain("noeviction");
    await redis.kill();
    expect((await runCommand(["doctor"], { cwd: folder, env: keys })).code).toBe(69);
  });
});

describe("its checks", () => {
  const now = Date.now();

  it("of libraries name those that a host of the executable needs", () => {
    const [found] = checkLibraries();
    if (process.platform === "linux") expect(found).toMatchObject({ state: "good", check: "libraries" });
    if (process.report.getReport() && found?.found.includes("glibc 2")) expect(found.found).toMatch(/libstdc\+\+\.so/);
  });

  it("of open files ask for what a full house needs", () => {
    const small = plan({ server: { maxConnections: 1_000 }, delivery: { concurrency: 500 } });
    expect(checkFiles(small, { soft: 1_700 }).state).toBe("good");
    expect(checkFiles(small, { soft: 1_024 })).toMatchObject({ state: "warn", todo: expect.stringContaining("1700") });
    expect(checkFiles(small, { soft: 256 }).state).toBe("bad");
    expect(checkFiles(small, { soft: Number.POSITIVE_INFINITY }).state).toBe("good");
  });

  it("of trust look at the dates of what the operator adds, and miss the system's", async () => {
    const authority = await makeAuthority(now);
    const leaf = await authority.issue(["127.0.0.1"]);
    writeFileSync(join(folder, "ca.pem"), authority.ca + leaf.cert);
    const given = plan({ guard: { ca: "./ca.pem" } });
    const states = async (at: number) => (await checkTrust(given, at, 10)).slice(1).map(({ state }) => state);
    expect(await states(now)).toEqual(["good", "warn"]);
    expect(await states(now + 100 * 365 * 86_400_000)).toEqual(["bad", "bad"]);
    expect(await states(now - 100 * 365 * 86_400_000)).toEqual(["bad", "bad"]);
    expect((await checkTrust(plan({}), now, 0))[0]).toMatchObject({
      state: "warn",
      todo: expect.stringContaining("ca-certificates"),
    });
  });

  it("of the server's certificate compare it with its key", async () => {
    const authority = await makeAuthority(now);
    const [one, two] = [await authority.issue(["127.0.0.1"]), await authority.issue(["127.0.0.1"])];
    for (const [name, text] of [
      ["one.pem", one.cert],
      ["one.key", one.key],
      ["two.key", two.key],
    ] as const)
      writeFileSync(join(folder, name), text);
    const server = (key: string) => plan({ server: { tls: { cert: "./one.pem", key } } });
    expect((await checkOwnCertificate(server("./one.key"), now))[0]?.state).toBe("good");
    expect((await checkOwnCertificate(server("./two.key"), now))[0]).toMatchObject({
      state: "bad",
      found: expect.stringContaining("not that of"),
    });
    expect(await checkOwnCertificate(plan({}), now)).toEqual([]);
  });

  it("of DNS ask the name servers that there are", async () => {
    const around = processEnvironment();
    await using server = await startNameServer(() => ["93.184.216.34"]);
    expect((await checkDns(around, [server.address])).state).toBe("good");
    await using empty = await startNameServer(() => "NXDOMAIN");
    expect((await checkDns(around, [empty.address])).state).toBe("warn");
    expect((await checkDns(around, [])).state).toBe("bad");
  });

  it("end with 78 for what is wrong here, with 69 for what does not answer, and pass warnings", () => {
    const one = (state: DoctorFinding["state"], where?: DoctorFinding["where"]): DoctorFinding => ({
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
