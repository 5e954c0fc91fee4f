// The machine around a relay: variables of the shell, keys, folders and other users' files must not bend what it does.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { makeAuthority } from "../support/certificates.ts";
import { startChild } from "../support/child-relay.ts";
import { runHere } from "../support/command-here.ts";
import { runCommand, startCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import { TEST_ENV, TEST_KEYS } from "../support/relay.ts";

const base = testFolder();
const fresh = (): string => mkdtempSync(join(base, "case-"));
const NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
const notRoot = process.getuid?.() === 0 ? undefined : "needs root, to become another user";

describe("variables of the environment", () => {
  it("lead no delivery through a proxy, and switch no verification off", async () => {
    const proxied: string[] = [];
    const proxy = createServer((socket) => {
      proxied.push("called");
      socket.destroy();
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const at = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const stranger = await makeAuthority(Date.now(), "a stranger's authority");
    await using trusted = await startReceiver();
    await using strange = await startReceiver({ certificate: await stranger.issue(["127.0.0.1", "localhost"]) });
    const folder = fresh();
    const extra = join(folder, "extra.pem");
    writeFileSync(extra, stranger.ca);
    const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    await using relay = await startChild(folder, {
      config: "retry: { attempts: 1 },",
      env: {
        ...Object.fromEntries(names.map((name) => [name, at])),
        NODE_USE_ENV_PROXY: "1",
        NODE_TLS_REJECT_UNAUTHORIZED: "0",
        NODE_EXTRA_CA_CERTS: extra,
      },
    });
    for (const receiver of [trusted, strange]) await relay.subscribe(receiver.url());
    await relay.publish({ type: "a:b", keyId: "key_1", id: "one", data: 1 });
    await trusted.waitFor(1);
    const shown = async () => await relay.event("one");
    await expect.poll(async () => (await shown()).status).toBe("failed");
    const ends = (await shown()).deliveries.map(
      (one: { attempts: { error?: string; statusCode?: number }[] }) => one.attempts[0],
    );
    expect(ends).toEqual(
      expect.arrayContaining([expect.objectContaining({ statusCode: 200 }), expect.objectContaining({ error: "tls" })]),
    );
    expect(strange.requests).toHaveLength(0);
    expect(proxied).toEqual([]);
    proxy.close();
  });

  it("win over the file and lose to flags; secrets may come in files, whose text is never shown", async () => {
    const folder = fresh();
    writeFileSync(
      join(folder, "relay.config.ts"),
      `export default { server: { port: 1, host: "192.0.2.1" }, dataDir: "./file", log: { level: "silent" } };`,
    );
    const env: Record<string, string> = {
      RELAY_HOST: "127.0.0.1",
      RELAY_PORT: "2",
      RELAY_DATA_DIR: "./from-env",
      RELAY_LOG_LEVEL: "info",
    };
    for (const [name, value] of Object.entries(TEST_ENV)) {
      env[`${name}_FILE`] = join(folder, name);
      writeFileSync(join(folder, name), `${value}\n`);
    }
    await using relay = startCommand(["start", "--port", "0"], { cwd: folder, env });
    const [, url = ""] = await relay.waitFor(/listening at (http:\/\/127\.0\.0\.1:\d+)["\n]/);
    expect(readdirSync(folder)).toContain("from-env");
    expect(existsSync(join(folder, "file"))).toBe(false);
    expect(existsSync(join(folder, "from-env", "keys"))).toBe(false);
    await relay.waitFor(/"level":"info"/);
    const published = await runHere(["publish", "a:b", "--key", "k", "--json"], {
      cwd: folder,
      env: { RELAY_URL: url, RELAY_PUBLISH_TOKEN_FILE: env["RELAY_PUBLISH_TOKEN_FILE"] ?? "" },
    });
    expect(published, published.stderr).toMatchObject({ code: 0 });
    const { id } = JSON.parse(published.stdout) as { id: string };
    const token = await runHere(["token"], {
      cwd: folder,
      env: { RELAY_SIGNING_KEY_FILE: env["RELAY_SIGNING_KEY_FILE"] ?? "" },
    });
    writeFileSync(join(folder, "token"), token.stdout);
    const shown = await runHere(["events", "show", id, "--key", "k", "--json"], {
      cwd: folder,
      env: { RELAY_URL: url, RELAY_TOKEN_FILE: join(folder, "token") },
    });
    expect(shown, shown.stderr).toMatchObject({ code: 0, stderr: "" });
    for (const secret of Object.values(TEST_ENV)) expect(relay.stderr() + relay.stdout()).not.toContain(secret);
  });
});

describe("keys", () => {
  it("that another storage was sealed with end the start with 78 before anything is served or changed", async () => {
    const folder = fresh();
    const env = { RELAY_PORT: "0" };
    await using first = startCommand(["start"], { cwd: folder, env });
    await first.waitFor(/listening at/);
    first.kill("SIGTERM");
    await first.ended;
    const files = readdirSync(join(folder, "data")).toSorted();
    const other = await runHere(["start"], {
      cwd: folder,
      env: { ...env, RELAY_MASTER_KEY: Buffer.alloc(32, 9).toString("base64") },
    });
    expect(other).toMatchObject({ code: 78, stdout: "" });
    expect(other.stderr).toContain("another master key");
    expect(other.stderr).not.toContain("listening");
    expect(readdirSync(join(folder, "data")).toSorted()).toEqual(files);
    await using again = startCommand(["start"], { cwd: folder, env });
    await again.waitFor(/listening at/);
  });

  it("must be given where storage is shared: 78 naming all three, before the storage is asked for anything", async () => {
    const refused = await runHere(["start"], {
      cwd: fresh(),
      env: { RELAY_REDIS_URL: "redis://127.0.0.1:1", RELAY_PORT: "0" },
    });
    expect(refused).toMatchObject({ code: 78, stdout: "" });
    for (const name of ["RELAY_MASTER_KEY", "RELAY_SIGNING_KEY", "RELAY_PUBLISH_TOKEN"])
      expect(refused.stderr).toContain(name);
  });

  it("in damaged files end the start with 78, by path and without their text", async () => {
    const folder = fresh();
    mkdirSync(join(folder, "data", "keys"), { recursive: true, mode: 0o755 });
    writeFileSync(join(folder, "data", "keys", "master"), "torn-secret-text", { mode: 0o644 });
    const refused = await runHere(["start"], { cwd: folder, env: { RELAY_PORT: "0" } });
    expect(refused).toMatchObject({ code: 78, stdout: "" });
    expect(refused.stderr).toContain(join("data", "keys", "master"));
    expect(refused.stderr).not.toContain("torn-secret-text");
  });

  it("copied from elsewhere with modes for everybody are tightened before they are used", async () => {
    const folder = fresh();
    const keys = join(folder, "data", "keys");
    mkdirSync(keys, { recursive: true, mode: 0o755 });
    writeFileSync(join(keys, "master"), TEST_KEYS.master, { mode: 0o644 });
    chmodSync(join(keys, "master"), 0o644);
    await using relay = startCommand(["start"], { cwd: folder, env: { RELAY_PORT: "0" } });
    await relay.waitFor(/listening at/);
    expect(statSync(join(keys, "master")).mode & 0o777).toBe(0o600);
    expect(statSync(keys).mode & 0o777).toBe(0o700);
    expect(relay.stderr()).not.toContain(`"file":"${join(keys, "master")}"`);
  });
});

describe("a folder that cannot be written", () => {
  it("ends the start with 78 and its name", async ({ skip }) => {
    skip(notRoot !== undefined, notRoot);
    const folder = fresh();
    for (let path = folder; path !== tmpdir(); path = join(path, "..")) chmodSync(path, 0o755);
    const refused = await runCommand(["start"], {
      cwd: folder,
      under: NOBODY,
      env: { RELAY_PORT: "0", HOME: "/nonexistent" },
    });
    expect(refused).toMatchObject({ code: 78, stdout: "" });
    expect(refused.stderr).toContain(join(folder, "data"));
    expect(refused.stderr).not.toContain("    at ");
  });

  it("does not keep the demo from being shown, by a user without a home, from files of somebody else", async ({
    skip,
  }) => {
    skip(notRoot !== undefined, notRoot);
    const temp = mkdtempSync(join(tmpdir(), "relay-nobody-"));
    try {
      chmodSync(temp, 0o777);
      const shown = await runCommand(["demo"], {
        cwd: "/",
        under: NOBODY,
        env: { TMPDIR: temp, HOME: "/nonexistent" },
      });
      expect({ code: shown.code, stderr: shown.stderr }).toEqual({ code: 0, stderr: "" });
      expect(shown.stdout).toMatch(/All \d+ promises held/);
      expect(readdirSync(temp)).toEqual([]);
    } finally {
      rmSync(temp, { recursive: true });
    }
  });
});

describe("/readyz", () => {
  it("says that the relay is starting, ready, and stopping, while /healthz says that it is alive", async () => {
    const folder = fresh();
    const gate = (name: string): string => join(folder, name);
    const source = `import { existsSync } from "node:fs";
const until = (file) => new Promise((done) => { const look = () => (existsSync(file) ? done() : setTimeout(look, 20)); look(); });
const slow = { kind: "source", name: "slow", setup: () => ({ start: () => until(${JSON.stringify(gate("go"))}), stop: () => until(${JSON.stringify(gate("end"))}) }) };`;
    const probe = createServer().listen(0, "127.0.0.1");
    await once(probe, "listening");
    const { port } = probe.address() as AddressInfo;
    await new Promise((resolve) => void probe.close(resolve));
    writeFileSync(
      join(folder, "relay.config.ts"),
      `${source}\nexport default { server: { port: ${port}, shutdownMs: 9000 }, sources: [slow] };`,
    );
    await using relay = startCommand(["start"], { cwd: folder });
    const get = async (path: string) => {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
      return [
        answer?.status,
        answer?.headers.get("cache-control"),
        ((await answer?.json()) as { data?: object })?.data,
      ];
    };
    await expect.poll(async () => (await get("/healthz"))[0], { timeout: 60_000 }).toBe(200);
    expect(await get("/readyz")).toMatchObject([
      503,
      "no-store",
      { parts: { relay: { ready: false, state: "starting" } } },
    ]);
    expect(relay.stderr()).not.toContain("listening at");
    writeFileSync(gate("go"), "");
    await relay.waitFor(/listening at/);
    expect(await get("/readyz")).toMatchObject([200, "no-store", { status: "ready" }]);
    relay.kill("SIGTERM");
    await expect.poll(async () => (await get("/readyz"))[0]).toBe(503);
    expect(await get("/readyz")).toMatchObject([
      503,
      "no-store",
      { parts: { relay: { ready: false, state: "stopping" } } },
    ]);
    writeFileSync(gate("end"), "");
    expect((await relay.ended).code).toBe(0);
    expect(readFileSync(join(folder, "relay.config.ts"), "utf8")).toContain("slow");
  });
});
