// `relay subscriptions import`, against a relay and a receiver that checks signatures.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CommandStage, ends, refused } from "../support/command-stage.ts";
import { ENTRY, type Ran, type Running } from "../support/command.ts";
import { testAuthority } from "../support/certificates.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";

const stage = new CommandStage(`server: { port: 0 }, guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" },
  limits: { "*": false }, abuse: false, subscriptions: { perKey: 4 }`);
const { folder } = stage;
let relay: Running;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  stage.write("ca.pem", (await testAuthority()).ca);
  relay = await stage.start();
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
});

const run = (words: string, input = ""): Promise<Ran> => stage.piped(input, `subscriptions ${words}`);
const secret = (): string => `whsec_${randomBytes(32).toString("base64")}`;
const listed = (key: string): Promise<Record<string, unknown>[]> => stage.json(`subscriptions list --key ${key}`);
const results = ({ stdout }: Ran): Record<string, unknown>[] =>
  stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe("an import", () => {
  it("creates what the list of another relay names, with the secrets that the receivers have", async () => {
    const [own, hook] = [secret(), receiver.url("/moved")];
    const options = { description: "books", retry: { attempts: 3, delaysMs: [1_000, 2_000] }, timeoutMs: 2_000 };
    const from = [
      {
        id: "sub_old",
        url: hook,
        events: ["a:b"],
        status: "active",
        createdAt: "2026-01-01T00:00:00.000Z",
        secret: own,
      },
      { id: "sub_off", url: hook, events: ["a:c"], status: "disabled", disabledReason: "endpoint_gone" },
      { id: "sub_plain", url: receiver.url("/plain"), events: ["*"], status: "active", ...options },
    ];
    // Editors on Windows begin a file with a mark.
    const name = stage.write("moved.json", `\ufeff${JSON.stringify({ data: from })}`);
    const dry = await run(`import ${name} --key key_moved --dry-run`);
    expect(dry).toMatchObject({ code: 0, stderr: "relay: 3 would create\n" });
    expect(dry.stdout).toContain(`would create  item 1  ${hook}\n`);
    expect(await listed("key_moved")).toEqual([]);
    const done = await run(`import ${name} --key key_moved`);
    expect(done).toMatchObject({ code: 0, stderr: "relay: 3 created\n" });
    expect(done.stdout + done.stderr).not.toContain(own);
    // The relay has made this one: it is shown once.
    expect(done.stdout).toMatch(/^created {2}item 3 {2}sub_\S+ {2}\S+\/plain\n {2}secret {2}whsec_\S{44}$/m);
    const [first, off, second] = await listed("key_moved");
    expect(off).toMatchObject({ status: "disabled" });
    expect(off).not.toHaveProperty("disabledReason");
    expect(second).toMatchObject(options);
    expect((await run(`test ${String(first?.["id"])} --key key_moved`)).code).toBe(0);
    const got = receiver.requests.find(({ path }) => path === "/moved");
    new Webhook(own).verify(got?.body ?? "", got?.headers as Record<string, string>);
  });

  it("skips what is there already, so that it may be run again", async () => {
    const [one, two] = [receiver.url("/one"), receiver.url("/two")];
    const lines = [
      { url: one, events: ["a:b", "a:c"], secret: secret() },
      { url: one, events: ["a:c", "a:b", "a:c"], secret: secret() },
      { url: two, events: ["a:b"], secret: secret() },
    ];
    const text = lines.map((line) => JSON.stringify(line)).join("\n");
    const first = results(await run("import - --key key_again --json", text));
    expect(first.map((line) => [line["place"], line["result"]])).toEqual([
      ["line 1", "created"],
      ["line 2", "exists"],
      ["line 3", "created"],
    ]);
    expect(first[1]?.["id"]).toBe(first[0]?.["id"]);
    expect(await run("import - --key key_again --json", text)).toMatchObject({
      code: 0,
      stderr: "relay: 3 exists\n",
    });
    expect(await listed("key_again")).toHaveLength(2);
    const dry = await run("import - --key key_again --dry-run", text);
    expect(dry.stderr).toBe("relay: 3 exists\n");
  });

  it("names each bad line with its place and goes on, and ends with 1", async () => {
    const weak = `whsec_${randomBytes(8).toString("base64")}`;
    const text = [
      JSON.stringify({ url: receiver.url("/good"), events: ["a:b"] }),
      "",
      `{"url": "${weak}`,
      JSON.stringify({ url: receiver.url("/weak"), events: ["a:b"], secret: weak }),
      JSON.stringify({ url: "http://hooks.example.com/", events: ["a b"], colour: "red" }),
      JSON.stringify({ url: receiver.url("/headers"), events: ["a:b"], headers: { "X-Token": null } }),
      JSON.stringify({ url: "https://10.0.0.1/refused-by-the-guard", events: ["a:b"] }),
      JSON.stringify({ url: receiver.url("/last"), events: ["a:b"] }),
    ].join("\n");
    const done = await run("import - --key key_bad", text);
    expect(done.code).toBe(1);
    expect(done.stderr).toContain("relay: line 3: is not a JSON object\n");
    expect(done.stderr).toContain("relay: line 4: secret: must hold 24 to 64 bytes after decoding, and holds 8");
    expect(done.stderr).toContain("relay: line 5: colour: is not known\n");
    expect(done.stderr).toMatch(/^relay: line 5: url: must start with https:\/\//m);
    expect(done.stderr).toMatch(/^relay: line 5: events\[0\]: /m);
    expect(done.stderr).toContain("relay: line 6: headers: need a value each\n");
    expect(done.stderr).toMatch(/^relay: line 7: .*422 URL_NOT_ALLOWED/m);
    expect(done.stderr).toContain("relay: 2 created, 5 failed\n");
    expect(done.stdout + done.stderr).not.toContain(weak);
    expect((await listed("key_bad")).map((one) => one["url"])).toEqual([receiver.url("/good"), receiver.url("/last")]);
  });

  it("does not end well when nobody reads the secrets that it makes", async () => {
    const entries = [1, 2, 3, 4].map((n) => ({ url: receiver.url(`/unread/${n}`), events: ["*"] }));
    const name = stage.write("unread.json", JSON.stringify(entries));
    const args = ["subscriptions", "import", name, "--key", "key_unread"];
    const child = spawn(process.execPath, [ENTRY, ...args], {
      cwd: folder,
      env: { PATH: process.env["PATH"], ...stage.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout.destroy();
    const [told, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
    expect((await listed("key_unread")).length).toBeLessThan(4);
    expect({ code: code as unknown, told }).toEqual({
      code: 69,
      told: "relay: nobody reads the output: stopped there; run it again: what is there is skipped\n",
    });
  });

  it("says at which line the key was full, and what is not tried when the caller has no right to it", async () => {
    const text = Array.from({ length: 6 }, (_, n) => JSON.stringify({ url: receiver.url(`/${n}`), events: ["a:b"] }));
    const full = await run("import - --key key_full", text.join("\n"));
    expect(full.code).toBe(1);
    expect(full.stderr).toMatch(/^relay: line 5: .*409 SUBSCRIPTION_LIMIT_REACHED/m);
    expect(full.stderr).toContain("relay: 4 created, 2 failed\n");
    expect(await run("import - --key key_full --token wrong", text.join("\n"))).toMatchObject(
      refused(1, "401 UNAUTHENTICATED"),
    );
  });

  it("warns of a file with secrets that others can read", async () => {
    const line = { url: receiver.url("/open"), events: ["a:b"] };
    const dry = async (name: string): Promise<string> => (await run(`import ${name} --key key_open --dry-run`)).stderr;
    const held = JSON.stringify([{ ...line, secret: secret() }]);
    expect(await dry(stage.write("open.json", held, 0o644))).toContain("warning: others can read open.json");
    expect(await dry(stage.write("closed.json", held, 0o600))).not.toContain("warning");
    expect(await dry(stage.write("plain.json", JSON.stringify([line]), 0o644))).not.toContain("warning");
  });

  it("says what is wrong with the command line or the whole file, without a word of it", async () => {
    expect(await run("import nowhere.json --key key_none")).toMatchObject(
      ends(64, "the file cannot be read (ENOENT): nowhere.json"),
    );
    const broken = await run("import - --key key_none", '[{"url": "https://a.example/", "secret": "whsec_canary"}');
    expect(broken).toMatchObject(ends(65, "neither a JSON list nor NDJSON"));
    expect(broken.stderr).not.toContain("canary");
    expect(await run("import - --key key_none --format hook0", "[]")).toMatchObject(
      ends(64, "--format must be relay, svix or convoy"),
    );
    expect(await run("import - --key key_none", "")).toMatchObject({
      code: 0,
      stderr: "relay: the file has no entries\n",
    });
  });

  it("says that a page is not the whole list", async () => {
    const page = (done: boolean): string => JSON.stringify({ data: [{ url: receiver.url("/page") }], done });
    const ran = (done: boolean): Promise<Ran> =>
      run(`import ${stage.write("page.json", page(done))} --format svix --key key_page --dry-run`);
    expect((await ran(false)).stderr).toMatch(/^relay: 1 would create\nrelay: warning: .*one page.*more follow.*\n$/);
    expect((await ran(true)).stderr).toBe("relay: 1 would create\n");
  });

  it("takes endpoints of Svix with their secrets", async () => {
    const bare = randomBytes(24).toString("base64");
    const page = {
      data: [
        {
          id: "ep_1",
          url: receiver.url("/svix"),
          description: "",
          filterTypes: null,
          metadata: {},
          version: 1,
          key: bare,
        },
      ],
      iterator: "iterator_1",
      done: true,
    };
    expect(await run("import - --key key_svix --format svix", JSON.stringify(page))).toMatchObject({
      code: 0,
      stderr: "relay: 1 created\n",
    });
    const [made] = await listed("key_svix");
    expect(made).toMatchObject({ events: ["*"] });
    expect((await run(`test ${String(made?.["id"])} --key key_svix`)).code).toBe(0);
    const got = receiver.requests.find(({ path }) => path === "/svix");
    new Webhook(bare).verify(got?.body ?? "", got?.headers as Record<string, string>);
  });
});
