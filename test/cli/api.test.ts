// Commands that ask the API, against a relay and a receiver that run as commands too.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runHere } from "../support/command-here.ts";
import { CommandStage, ends, refused, urlOf } from "../support/command-stage.ts";
import { runCommand, startCommand, type Running } from "../support/command.ts";
import { clientCertificate } from "../support/certificates.ts";

const stage = new CommandStage(`
  server: { port: 0 },
  guard: { allow: ["127.0.0.1:*"], ca: "./ca/ca.pem" },
  limits: { "*": false },
  abuse: false,
  events: { "a:b": { schema: { type: "integer" }, example: 5, description: "A number." }, "a:c": { deprecated: true }, "f:g": {} },
  validate: "off",
  transforms: { slack: ({ type }) => ({ text: type }) },
`);
const { folder, run } = stage;
let relay: Running;
let receiver: Running;
let receiverUrl: string;
let url: string;
beforeAll(async () => {
  receiver = startCommand(["listen", "--port", "0", "--dir", "ca", "--json"], { cwd: folder });
  receiverUrl = await urlOf(receiver);
  relay = await stage.start();
  url = stage.env["RELAY_URL"] ?? "";
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
});
const data = <T>(words: string, ...more: string[]): Promise<T> => stage.json<T>(words, ...more);

describe("against a running relay", () => {
  let id: string;

  it("says where the first start put its keys, and never what they are", () => {
    expect(relay.stderr()).toContain(join(folder, "data", "keys", "signing"));
    expect(relay.stdout()).toBe("");
  });

  it("makes a link to the portal of a key, and ends it", async () => {
    const made = await run("api-keys portal-link key_9 --access read --expires-in 600");
    expect(made.code, made.stderr).toBe(0);
    const at = made.stdout.trim();
    expect(at.startsWith(`${url}/portal#link=`)).toBe(true);
    const headers = { authorization: `Bearer ${new URL(at).hash.slice("#link=".length)}` };
    const status = async (): Promise<number> => (await fetch(`${url}/api-keys/key_9/webhooks`, { headers })).status;
    expect(await status()).toBe(200);
    const shown = await data<{ url: string; expiresAt: string }>("api-keys portal-link key_9");
    expect(Object.keys(shown)).toEqual(["id", "url", "expiresAt"]);
    expect((await run("api-keys end-portal-links key_9")).code).toBe(0);
    expect(await status()).toBe(401);
    expect(await run("api-keys portal-link key_9 --access admin")).toMatchObject(
      ends(64, "--access must be manage or read"),
    );
  });

  it("signs tokens that may only read, and makes accounts that may only read", async () => {
    const token = (await run("token --keys key_9 --access read")).stdout.trim();
    expect(await run("api-keys portal-link key_9 --token", token)).toMatchObject(ends(1, "FORBIDDEN"));
    expect((await run("api-keys --token", token)).code).toBe(0);
    type Listed = readonly { username: string; access: string }[];
    const access = async () => (await data<Listed>("users list")).find(({ username }) => username === "eve")?.access;
    expect((await run("users add eve --access read")).code).toBe(0);
    expect(await access()).toBe("read");
    const changed = await run("users reset eve --access manage");
    // The password stays.
    expect([changed.code, changed.stdout]).toEqual([0, ""]);
    expect(await access()).toBe("manage");
    expect((await run("users remove eve")).code).toBe(0);
  });

  it("creates a subscription and shows its secret once", async () => {
    const created = await run(`subscriptions create ${receiverUrl}/a --key key_1 --events a:b,a:c`);
    expect(created.code).toBe(0);
    expect(created.stdout).toMatch(/^secret +whsec_/m);
    expect(created.stderr).toContain("shown this once");
    const listed = await data<{ id: string; secret?: string }[]>("subscriptions list --key key_1");
    expect(listed).toHaveLength(1);
    expect(listed[0]).not.toHaveProperty("secret");
    id = listed[0]?.id ?? "";
    const table = (await run("subscriptions list --key key_1")).stdout.split("\n");
    expect(table[0]).toMatch(/^ID +STATUS +URL +EVENTS$/);
    expect(table[1]).toContain(`${receiverUrl}/a`);
  });

  it("lists event types, shows one, and sends its example as a test event", async () => {
    const listed = await data<{ name: string }[]>("events types");
    expect(listed).toEqual([
      { name: "a:b", description: "A number.", validate: "off", hasExample: true },
      { name: "a:c", deprecated: true },
      { name: "f:g" },
    ]);
    const table = (await run("events types")).stdout;
    expect(table).toMatch(/^a:b +off +yes +A number\.$/m);
    expect(table).toMatch(/^a:c \(deprecated\)/m);
    expect(await data("events types a:b")).toMatchObject({ schema: { type: "integer" }, example: 5 });
    expect((await run("events types a:b")).stdout).toContain("example  5");
    expect((await run("events types no:such")).code).toBe(1);
    const sent = await run(`subscriptions test ${id} --key key_1 --type a:b`);
    expect([sent.code, sent.stdout]).toEqual([0, expect.stringContaining("delivered, status 200")]);
    // Its id tells it from an event that happened; no published event gets such a one.
    await receiver.waitFor(/"evt_test_[0-9a-z]{26}"/);
    const published = await run("publish a:b --key key_1 --data 6");
    expect(published.stdout).toMatch(/^evt_[0-9a-z]{26} /);
    expect(await run(`subscriptions test ${id} --key key_1 --type f:g`)).toMatchObject(
      ends(64, "no event type that has an example"),
    );
  });

  it("takes a secret from a file, stdin or the environment, never as an argument, and does not print it", async () => {
    const secret = `whsec_${randomBytes(32).toString("base64")}`;
    stage.write("secret", `${secret}\n`);
    const hook = ["subscriptions", "create", `${receiverUrl}/own`, "--key", "key_0", "--events", "a:b", "--secret"];
    const env = { RELAY_URL: url, MOVED: secret };
    for (const from of ["@secret", "-", "env:MOVED"]) {
      const made = await runHere([...hook, from], { cwd: folder, env, input: `${secret}\n` });
      expect(made.code, made.stderr).toBe(0);
      expect(made.stdout).not.toMatch(/^secret/m);
      expect(made.stdout + made.stderr).not.toContain(secret);
    }
    for (const [from, said] of [
      [secret, "--secret takes @file, - for stdin, or env:NAME"],
      ["@nowhere", "a file that cannot be read (ENOENT)"],
      ["env:NOWHERE", "an environment variable that is not set"],
    ] as const) {
      const ran = await runHere([...hook, from], { cwd: folder, env });
      expect(ran).toMatchObject(refused(64, said));
      expect(ran.stderr).not.toContain(secret);
    }
    expect(await runHere([...hook, "-"], { cwd: folder, env, input: "too-short" })).toMatchObject(
      ends(64, "secret: must be whsec_ and then base64"),
    );
    for (const { id } of await data<{ id: string }[]>("subscriptions list --key key_0"))
      await run(`subscriptions delete ${id} --key key_0`);
  });

  it("publishes from an option, a file and stdin, byte for byte, and shows what became of it", async () => {
    stage.write("data.json", '{"n": 1.0}');
    type Published = { id: string; deliveries: number };
    const given = await data<Published>("publish a:b --key key_1 --data", '{"n":90071992547409931}');
    expect(given.deliveries).toBe(1);
    const file = await data<{ id: string }>("publish a:b --key key_1 --data @data.json --id 007");
    expect(file.id).toBe("007");
    const piping = { cwd: folder, env: { RELAY_URL: url }, input: "-7\n" };
    const piped = await runCommand(["publish", "a:b", "--key", "key_1", "--data", "-"], piping);
    expect(piped.stdout).toMatch(/^evt_\S+ {2}accepted, 1 delivery\n$/);
    await receiver.waitFor(new RegExp('90071992547409931[^]*"n\\\\": 1.0[^]*-7'));
    const managed = await data<{ id: string }>(
      "publish a:b --key key_1 --id by-hand --as-manager --header",
      "X-Tenant: t-1",
    );
    expect(managed.id).toBe("by-hand");
    const { headers } = await data<{ headers: object }>("events show by-hand --key key_1");
    expect(headers).toEqual({ "x-tenant": "t-1" });
    expect((await run("audit --key key_1 --action event.published")).stdout).toContain("by-hand");
    const again = await run("publish a:b --key key_1 --data @data.json --id 007");
    expect(again.stdout).toBe("007  known already, 1 delivery\n");
    const shown = await run("events show --json 007 --key key_1");
    expect(shown.stdout).toContain('"n": 1.0');
    const text = await run(`events show ${given.id} --key key_1`);
    expect(text.stdout).toContain("90071992547409931");
    expect(text.stdout).toContain(id);
    const listed = await data<{ id: string }[]>("events list --key key_1 --type a:b");
    expect(listed.map((event) => event.id)).toContain("007");
    const page = await run("events list --key key_1 --limit 1");
    expect(page.stderr).toContain("there are more: --cursor ");
  });

  it("publishes no data whose bytes are not UTF-8: it would change them", async () => {
    stage.write("latin1.json", Buffer.from('{"name":"José"}', "latin1"));
    const latin = await run("publish f:g --key key_1 --data @latin1.json --id latin1");
    expect(latin).toMatchObject({ code: 64, stdout: "" });
    expect(latin.stderr).toMatch(/^relay: --data is not UTF-8: save it in that encoding\n/);
    expect((await run("events show latin1 --key key_1")).code).toBe(1);
    // Editors on Windows begin a file with a mark.
    stage.write("marked.json", '\ufeff{"name":"José"}');
    await data("publish f:g --key key_1 --data @marked.json --id marked");
    expect(await data("events show marked --key key_1")).toMatchObject({ data: { name: "José" } });
  });

  it("searches events by id, data and attempts, and exports what it finds", async () => {
    const search = (words: string, ...more: string[]) =>
      data<{ id: string }[]>(`events list --key key_1 ${words}`, ...more);
    expect((await search("--id 00")).map((event) => event.id)).toEqual(["007"]);
    expect((await search("--text", "no such text")).map((event) => event.id)).toEqual([]);
    expect((await search("--status-code 200 --id 007 --min-duration 0")).length).toBe(1);
    expect((await run("events list --key key_1 --status-code 99")).code).toBe(64);
    const all = await run("events export --key key_1");
    const lines = all.stdout.trim().split("\n");
    expect(all).toMatchObject({ code: 0, stderr: `relay: ${lines.length} events\n` });
    expect(lines.map((line) => Object.keys(JSON.parse(line) as object))).toEqual(
      lines.map(() => ["id", "type", "status", "createdAt", "acceptedAt"]),
    );
    const csv = await run("events export --key key_1 --format csv --id 007");
    expect(csv.stdout).toMatch(/^id,type,status,createdAt,acceptedAt\n007,a:b,delivered,\S+Z,\S+Z\n$/);
    expect((await run("events export --key key_1 --format xml")).code).toBe(64);
  });

  it("updates, disables, replays by force and deletes", async () => {
    expect(await data(`subscriptions update ${id} --key key_1 --events a:*`)).toMatchObject({
      events: ["a:*"],
    });
    expect(await run("replay 007 --key key_1 --force")).toMatchObject({
      code: 0,
      stdout: "1 delivery goes out again\n",
    });
    await receiver.waitFor(/"replay":"1"/);
    const off = await run(`subscriptions update ${id} --key key_1 --status disabled`);
    expect(off.stdout).toMatch(/^status +disabled$/m);
    expect(await run(`subscriptions delete ${id} --key key_1`)).toMatchObject({ code: 0, stdout: "" });
    expect(await run("subscriptions list --key key_1")).toMatchObject({ code: 0, stdout: "" });
  });

  it("gives and removes credentials, and warns of a certificate that has ended", async () => {
    const { cert, key } = await clientCertificate({ from: Date.now() - 90_000_000, until: Date.now() - 10_000_000 });
    const oauth2 = { tokenUrl: `${receiverUrl}/token`, clientId: "me", clientSecret: "the-client-secret" };
    const files = { "client.pem": cert, "client.key": key, "oauth2.json": JSON.stringify(oauth2) };
    for (const [name, text] of Object.entries(files)) stage.write(name, text);
    const hook = `subscriptions create ${receiverUrl}/credentials --key key_3 --events a:b`;
    const made = await run(`${hook} --client-cert client.pem --client-key client.key --oauth2 @oauth2.json`);
    expect(made.stdout).toMatch(/^certificate +CN=client-\S+, until \d{4}-\d\d-\d\d, SHA-256 (?:[\dA-F]{2}:){31}/m);
    expect(made.stdout).toMatch(/^oauth2 +me at https:\/\/\S+\/token$/m);
    expect(made.stdout).not.toContain("the-client-secret");
    expect(made.stderr).toContain("relay: warning: the client certificate ended on");
    const [one] = await data<{ id: string }[]>("subscriptions list --key key_3");
    const update = (...args: string[]) => run(`subscriptions update ${one?.id ?? ""} --key key_3`, ...args);
    expect((await update("--description", "x")).stderr).toContain("relay: warning: the client certificate ended on");
    const bare = await update("--client-cert", "none", "--oauth2", "none");
    expect(bare.stderr).not.toContain("warning");
    expect(bare.stdout).not.toMatch(/^(?:certificate|oauth2) /m);
    expect(await update("--client-cert", "client.pem")).toMatchObject({ code: 64 });
    expect(await update("--oauth2", "{")).toMatchObject({ code: 64 });
  });

  it("creates and changes headers, retry, rate limit and time-out", async () => {
    stage.write("headers", "X-Tenant: 7\n\nX-Note: a, b: c\n");
    const hook = `subscriptions create ${receiverUrl}/set --key key_2 --events a:b --header @headers --header X-More:1`;
    const made = await data<{ id: string }>(`${hook} --retry attempts=3,factor=1.5 --rate-limit 0.5 --timeout-ms 2500`);
    expect(made).toMatchObject({
      headers: { "X-Tenant": null, "X-Note": null, "X-More": null },
      retry: { attempts: 3, firstDelayMs: 5_000, factor: 1.5, maxDelayMs: 3_600_000 },
      rateLimit: { perSecond: 0.5 },
      timeoutMs: 2_500,
    });
    const update = (...args: string[]) => run(`subscriptions update ${made.id} --key key_2`, ...args);
    const text = await update("--header", "X-Tenant", "--header", "X-New: 2", "--timeout-ms", "none");
    expect(text.stdout).toMatch(/^headers +X-Tenant, X-New$/m);
    expect(text.stdout).toMatch(/^retry +attempts=3 firstDelayMs=5000 factor=1.5 maxDelayMs=3600000$/m);
    expect(text.stdout).toMatch(/^rate limit +0.5 attempts a second$/m);
    expect(text.stdout).not.toMatch(/^time-out/m);
    const listed = await update("--retry-delays", "5s,5m,1.5h,2d");
    expect(listed.stdout).toMatch(/^retry +attempts=5 delaysMs=5000,300000,5400000,172800000$/m);
    expect(await update("--retry-delays", "5x")).toMatchObject(ends(64, "5x"));
    expect(await update("--retry-delays", "2d,2d")).toMatchObject(
      ends(64, "retry.delaysMs: must be at most 259200000 together, three days"),
    );
    const bare = await update("--header", "none", "--retry", "none", "--rate-limit", "none");
    expect(bare.stdout).not.toMatch(/^(?:headers|retry|rate limit) /m);
    expect(await update("--retry", "attempts=6")).toMatchObject(
      ends(64, "retry.attempts: must be a whole number from 1 to 5"),
    );
  });

  it("sets a transform by its name, shows it, and removes it", async () => {
    const hook = ["--key", "key_4", "--events", "f:g", "--transform", "slack"];
    const made = await run("subscriptions create", `${receiverUrl}/transformed`, ...hook);
    expect(made.stdout).toMatch(/^transform +slack$/m);
    const id = /^id +(\S+)$/m.exec(made.stdout)?.[1] ?? "";
    const update = (...args: string[]) => run(`subscriptions update ${id} --key key_4`, ...args);
    const wrong = await update("--transform", "sms");
    expect(wrong.stderr).toContain("transform: is not a transform of the relay's config (there are: slack)");
    expect(await run("subscriptions transforms")).toMatchObject({ code: 0, stdout: "slack\n" });
    expect(await data("subscriptions transforms")).toEqual([{ name: "slack" }]);
    expect((await run(`subscriptions show ${id} --key key_4`)).stdout).toMatch(/^transform +slack$/m);
    expect(await data(`subscriptions show ${id} --key key_4`)).toMatchObject({ id, transform: "slack" });
    expect((await update("--transform", "none")).stdout).not.toMatch(/^transform/m);
  });

  it("sets a filter, tests it on an event that is stored or is not, and removes it", async () => {
    stage.write("filter.json", '{"path": "data.amount", "gte": 100}\n');
    const hook = ["--key", "key_3", "--events", "f:g", "--filter", "@filter.json"];
    const { id } = await data<{ id: string }>("subscriptions create", `${receiverUrl}/filtered`, ...hook);
    const large = await data<{ id: string; deliveries: number }>("publish f:g --key key_3 --data 100");
    expect(large.deliveries).toBe(0);
    const test = (...args: string[]) => run(`subscriptions test-filter ${id} --key key_3`, ...args);
    const stored = await test("--event", large.id);
    expect(stored.code).toBe(1);
    expect(stored.stdout).toMatch(/^does not match\n/);
    expect(stored.stdout).toMatch(/^filter +no +yes +missing +\{"path":"data.amount","gte":100\}$/m);
    const other = ["--type", "f:g", "--data", '{"amount":5}'];
    expect((await test(...other)).stdout).toMatch(/^filter +no +yes +5 /m);
    expect(await test(...other, "--filter", '{"not":{"path":"data.amount","gt":5}}')).toMatchObject({ code: 0 });
    expect(await test(...other, "--filter", "none")).toMatchObject({ code: 0, stdout: "matches\n" });
    expect((await test("--type", "c:d")).stdout).toContain("no event name of the subscription matches c:d");
    expect(await test()).toMatchObject(ends(64, "give either --event"));
    const shape = (...args: string[]) => run(`subscriptions test-transform ${id} --key key_3`, ...args);
    const whole = await shape("--event", large.id);
    expect(whole.code).toBe(0);
    expect(JSON.parse(whole.stdout)).toMatchObject({ id: large.id, type: "f:g", keyId: "key_3", data: 100 });
    expect(await shape(...other, "--transform", "sms")).toMatchObject({
      code: 1,
      stdout: "makes no body: sms is not in the config any more\n",
    });
    expect(await test(...other, "--filter", '{"path":"body.a","exists":true}')).toMatchObject(
      ends(64, "filter.path: must be type"),
    );
    const update = (...args: string[]) => run(`subscriptions update ${id} --key key_3`, ...args);
    expect((await update("--description", "x")).stdout).toMatch(/^filter +\{"path":"data.amount","gte":100\}$/m);
    expect((await update("--filter", "none")).stdout).not.toMatch(/^filter/m);
  });

  it("says when two subscriptions have the same URL", async () => {
    const twice = `subscriptions create ${receiverUrl}/twice --key key_2 --events a:b`;
    const first = await data<{ id: string }>(twice);
    const second = await run(twice);
    expect(second.code).toBe(0);
    expect(second.stderr).toContain(`${first.id} has the same URL`);
  });

  it("lists the keys that are in use, and says what the id of a key looks like", async () => {
    expect(await run("api-keys")).toMatchObject({ code: 0, stdout: "key_0\nkey_1\nkey_2\nkey_3\nkey_4\n" });
    const figures = await run("api-keys --range 1h");
    expect(figures.stdout).toMatch(/^ID +ACCEPTED +FILTERED +ATTEMPTS +DELIVERED +FAILED$/m);
    expect(figures.stdout).toMatch(/^key_3 +1 +1 +0 +0 +0$/m);
    expect(await run("api-keys --range 2h")).toMatchObject({ code: 64, stdout: "" });
    expect(await run("subscriptions list --key", "my key")).toMatchObject(
      refused(64, '--key: "my key" is no id of an API key: it has 1 to 64 letters'),
    );
  });

  it("prints an error of the API with title, detail and every field, and nothing on stdout", async () => {
    const wrong = await run("subscriptions create http://a.example/ --key key_1 --events", "a b");
    expect(wrong).toMatchObject(refused(64, "400 VALIDATION_FAILED"));
    expect(wrong.stderr).toMatch(/^ {2}url: /m);
    expect(wrong.stderr).toMatch(/^ {2}events\[0\]: /m);
    expect((await run("subscriptions delete sub_nothing --key key_1")).code).toBe(1);
    expect((await run("replay 007 --key key_1 --token wrong")).stderr).toContain("401 UNAUTHENTICATED");
    expect((await run("publish a:b --key key_1 --token wrong")).code).toBe(1);
  });

  it("stops cleanly at SIGTERM", async () => {
    relay.kill("SIGTERM");
    expect(await relay.ended).toMatchObject({ code: 0, stdout: "" });
  });
});
