// The command line itself: exit codes, what goes to stdout and what to stderr, and commands that need no relay.
import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { refused } from "../support/command-stage.ts";
import { runHere } from "../support/command-here.ts";
import { runCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";

const folder = testFolder();
const run = (...args: string[]) => runHere(args, { cwd: folder });
/** The same as a process. */
const spawned = (...args: string[]) => runCommand(args, { cwd: folder });

describe("the command line", () => {
  it("lists the commands on stdout when asked, and on stderr with 64 when nothing is asked", async () => {
    const [asked, nothing] = await Promise.all([spawned("--help"), spawned()]);
    expect(asked).toMatchObject({ code: 0, stderr: "" });
    for (const name of [
      "start",
      "init",
      "check",
      "token",
      "publish",
      "events show",
      "replay",
      "listen",
      "keys",
      "demo",
      "dev",
    ])
      expect(asked.stdout).toContain(`\n  ${name}`);
    expect(nothing).toMatchObject(refused(64, "relay <command>"));
  });

  it.skipIf(!existsSync("/dev/full"))("says 69 and why when its output finds no room", () => {
    const full = openSync("/dev/full", "w");
    const { status, stderr } = spawnSync(process.execPath, ["cli/relay.mjs", "keys"], {
      stdio: ["ignore", full, "pipe"],
      encoding: "utf8",
    });
    closeSync(full);
    expect({ status, stderr }).toEqual({
      status: 69,
      stderr: "relay: the output cannot be written (ENOSPC): it is not whole\n",
    });
  });

  it("tells its version", async () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
    expect(await spawned("--version")).toEqual({ code: 0, stdout: `relay ${version}\n`, stderr: "" });
  });

  it("tells the options of one command", async () => {
    const { code, stdout } = await spawned("subscriptions", "create", "--help");
    expect(code).toBe(0);
    expect(stdout).toContain("--events <names>");
  });

  it.each([
    [["strat"], 'did you mean "start"'],
    [["subscriptions"], "list, show, create"],
    [["subscriptions", "lst"], 'did you mean "list"'],
    [["events", "--key", "k"], "events what?"],
    [["start", "--prot", "1"], '--prot is no option of relay start (did you mean "--port"?)\nSee relay start --help'],
    [["start", "--date-dir=x"], '--date-dir is no option of relay start (did you mean "--data-dir"?)'],
    [["start", "--port", "99999"], "--port must be a whole number from 0 to 65535"],
    [["start", "--port"], "--port needs a value"],
    [["start", "--port="], "--port is empty"],
    [["start", "--port", "1", "--port", "2"], "--port is given twice"],
    [["replay", "--key", "k", "--dry-run=1"], "relay: --dry-run takes no value\nSee relay replay --help"],
    [["publish", "a:b", "--key", "k", "--as-manager=yes"], "relay: --as-manager takes no value"],
    [["events", "list", "--key", "k", "--no-wait=false"], "relay: --no-wait takes no value"],
    [["start", "now"], "relay: now is too much: the command is relay start\nSee relay start --help"],
    [
      ["subscriptions", "create", "--address", "https://a.example/"],
      "--address is no option of relay subscriptions create",
    ],
    [["publish", "-x"], "-x is no option of relay publish"],
    [["publish"], "relay: an argument is missing: the command is relay publish <type>\nSee relay publish --help"],
    [["publish", "a:b"], "relay: --key is missing\nSee relay publish --help\n"],
    [["--nonsense"], "unknown option: --nonsense; see relay --help"],
    [["check", "--url"], "relay: --url needs a value\n"],
    [["doctor", "--url"], "relay: --url needs a value\n"],
    [["publish", "a:b", "--key", "my key"], '--key: "my key" is no id of an API key'],
    [["subscriptions", "update", "sub_1", "--key", "k", "--retry", "tries=3"], "--retry: tries=3 is none of attempts="],
    [["subscriptions", "update", "sub_1", "--key", "k", "--rate-limit", "fast"], "--rate-limit must be a number"],
    [["subscriptions", "update", "sub_1", "--key", "k", "--header", ": x"], '--header must be "Name: value"'],
    [["publish", "a:b", "--key", "k", "--data", "{"], "--data is not JSON"],
    [["publish", "a:b", "--key", "k", "--data", "@nowhere.json"], "ENOENT"],
    [["subscriptions", "update", "sub_1", "--key", "k"], "nothing to change"],
    [["subscriptions", "create", "https://a.example/", "--key", "k", "--events", "a,,b"], "empty item"],
    [["token", "--keys", "a b"], "a b is no id"],
    [["listen", "--status", "99"], "99 is no status"],
    [["events", "list", "--key", "k", "--url", "ftp://x"], "--url must be"],
    [["events", "list", "--key", "k", "--url", "http://u:p@x"], "--url must be"],
    [["keys", "--", "x"], "--"],
  ])("refuses %j with 64 and nothing on stdout", async (args, told) => {
    const { code, stdout, stderr } = await run(...args);
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
    expect(stderr).toContain(told);
    expect(stderr).not.toContain("    at ");
  });

  it("says 69 when nobody answers, with the address", async () => {
    const { code, stderr } = await run("events", "list", "--key", "k", "--url", "http://127.0.0.1:1", "--token", "t");
    expect(code).toBe(69);
    expect(stderr).toContain("no answer from http://127.0.0.1:1");
  });

  it("says 78 when there is no token to be had here", async () => {
    const { code, stderr } = await run("events", "list", "--key", "k", "--url", "http://127.0.0.1:1");
    expect(code).toBe(78);
    expect(stderr).toContain(join(folder, "data", "keys", "signing"));
  });
});

describe("relay init", () => {
  const TEMPLATE = readFileSync("relay.config.ts", "utf8");

  it("writes the default with comments, never over a file that is there", async () => {
    expect(await run("init")).toMatchObject({ code: 0, stdout: "" });
    const file = join(folder, "relay.config.ts");
    expect(readFileSync(file, "utf8")).toBe(TEMPLATE);
    writeFileSync(file, "export default {};");
    expect((await run("init")).code).toBe(1);
    expect(readFileSync(file, "utf8")).toBe("export default {};");
    expect((await run("init", "--force")).code).toBe(0);
    expect(readFileSync(file, "utf8")).toBe(TEMPLATE);
    rmSync(file);
  });

  it("writes a config that is in order", async () => {
    await run("init", "other.ts");
    expect(await run("check", "--config", "other.ts")).toMatchObject({ code: 0, stderr: "" });
  });
});

describe("relay check", () => {
  it("says that the default is in order", async () => {
    const { code, stdout } = await run("check");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^storage +sqlite$/m);
  });

  it("warns of what is allowed but hardly meant, and still ends with 0", async () => {
    const text = `import { http } from "relaybox"; export default { sources: [http({ tokens: ["abc"] })] };`;
    writeFileSync(join(folder, "short.ts"), text);
    const plain = await run("check", "--config", "short.ts");
    expect(plain).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^relay: warning: sources\[0\]\.tokens\[0\]: /),
    });
    const { stdout } = await run("check", "--config", "short.ts", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, warnings: [{ path: "sources[0].tokens[0]" }] });
  });

  it("ends with 78 and every problem, also as JSON", async () => {
    writeFileSync(join(folder, "bad.ts"), "export default { server: { port: -1 }, nope: 1, log: { level: 'x' } };");
    const env = { RELAY_CONFIG: "bad.ts", RELAY_PORT: "x" };
    const plain = await runHere(["check"], { cwd: folder, env });
    expect(plain).toMatchObject({ code: 78, stdout: "" });
    for (const path of ["server.port", "nope", "log.level", "RELAY_PORT"])
      expect(plain.stderr).toContain(`  ${path}: `);
    const json = await runHere(["check", "--json"], { cwd: folder, env });
    expect(json).toMatchObject({ code: 78, stderr: "" });
    const { ok, problems } = JSON.parse(json.stdout) as { ok: boolean; problems: { path: string }[] };
    expect(ok).toBe(false);
    expect(problems.map(({ path }) => path).sort()).toEqual(["RELAY_PORT", "log.level", "nope", "server.port"]);
  });
});

describe("relay keys and relay token", () => {
  it("prints fresh keys of 32 bytes, another time others", async () => {
    const [one, two] = await Promise.all([run("keys", "--json"), run("keys", "--json")]);
    const keys = JSON.parse(one.stdout) as Record<string, string>;
    expect(Buffer.from(keys["RELAY_MASTER_KEY"] ?? "", "base64")).toHaveLength(32);
    expect(Buffer.from(keys["RELAY_SIGNING_KEY"] ?? "", "base64")).toHaveLength(32);
    expect(one.stdout).not.toBe(two.stdout);
    expect((await run("keys")).stdout).toMatch(
      /^RELAY_MASTER_KEY=\S{44}\nRELAY_SIGNING_KEY=\S{44}\nRELAY_WEBHOOK_KEY=\S{44}\nRELAY_PUBLISH_TOKEN=\S+\n$/,
    );
  });

  it("signs a token with the signing key it is given", async () => {
    const key = Buffer.alloc(32, 1).toString("base64");
    const args = ["token", "--sub", "me", "--keys", "key_1,key_2", "--mfa", "--ttl", "60"];
    const { code, stdout } = await runHere(args, { cwd: folder, env: { RELAY_SIGNING_KEY: key } });
    expect(code).toBe(0);
    const part = Buffer.from(stdout.split(".")[1] ?? "", "base64url").toString();
    const claims = JSON.parse(part) as Record<string, unknown>;
    expect(claims).toMatchObject({ sub: "me", api_keys: ["key_1", "key_2"], amr: ["mfa"], iss: "urn:relaybox" });
    expect(Number(claims["exp"]) - Number(claims["iat"])).toBe(60);
    expect(claims["auth_time"]).toBe(claims["iat"]);
  });

  it("signs with the secret of jwt({ secret }), and ends with 78 under a public key", async () => {
    const jwt = (key: string): string =>
      `import { jwt } from "relaybox";\nexport default { auth: jwt({ ${key}, issuer: "i", audience: ["a", "b"] }) };`;
    writeFileSync(join(folder, "shared.ts"), jwt(`secret: "${"s".repeat(32)}", algorithms: ["HS512"]`));
    const signed = await run("token", "--config", "shared.ts");
    expect(signed.code).toBe(0);
    const [head, claims] = signed.stdout
      .split(".")
      .slice(0, 2)
      .map((part) => JSON.parse(Buffer.from(part, "base64url").toString()) as object);
    expect(head).toMatchObject({ alg: "HS512" });
    expect(claims).toMatchObject({ sub: "operator", iss: "i", aud: ["a", "b"], api_keys: ["*"] });
    writeFileSync(join(folder, "public.ts"), jwt(`jwksUrl: "https://id.example.com/jwks", algorithms: ["EdDSA"]`));
    expect(await run("token", "--config", "public.ts")).toMatchObject({ code: 78, stdout: "" });
  });
});
