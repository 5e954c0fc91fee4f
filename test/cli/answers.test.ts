// The command against a server that is no honest relay: nothing reaches the terminal raw, no token goes further than given, no
// path names another one, and nothing is waited for without end.
import type { IncomingMessage } from "node:http";
import { readdirSync } from "node:fs";
import { beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { runHere, type HereOptions } from "../support/command-here.ts";
import { ends, fakeRelay, refused, says } from "../support/command-stage.ts";
import { runCommand, startCommand, type Ran } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";

const fake = fakeRelay();
beforeEach(() => void (fake.asked = []));
const paths = (): string[] => fake.asked.map(({ method, url }) => `${method} ${url}`);

const line = (words: string | readonly string[]): string[] => [
  ...(typeof words === "string" ? words.split(" ") : words),
  ...["--url", fake.url, "--token", "t"],
];
const run = (words: string | readonly string[], options?: HereOptions): Promise<Ran> => runHere(line(words), options);
const LIST = "events list --key k";
async function list(answer: typeof fake.answer, options?: HereOptions): Promise<Ran> {
  fake.answer = answer;
  return run(LIST, options);
}

describe("a path", () => {
  // As parts of a URL they stand for the path above: `events/../replay` of a key replays all that failed on it.
  it.each([
    "replay .. --key k",
    "replay --key k --subscription ..",
    "events delete . --key k",
    "subscriptions delete .. --key k",
    "api-keys erase .. --yes",
    "users remove ..",
    "users reset .. --totp-off",
  ])("of relay %s is asked for by nobody, and ends with 64", async (words) => {
    const { code, stderr } = await run(words);
    expect({ code, asked: paths() }).toEqual({ code: 64, asked: [] });
    expect(stderr).toMatch(/"\.\.?" is no (?:id|name)/);
  });

  it.each([
    ["events", "show", "", "--key", "k"],
    ["replay", "", "--key", "k"],
    ["backup", ""],
  ])("of relay %s %s with an empty argument ends with 64", async (...args) => {
    const { code, stderr } = await run(args);
    expect({ code, asked: paths() }).toEqual({ code: 64, asked: [] });
    expect(stderr).toContain("an argument is empty");
  });

  it("keeps what looks like a path inside its segment", async () => {
    await run("events show ../a?b#c --key k");
    expect(paths()).toEqual(["GET /api-keys/k/events/..%2Fa%3Fb%23c"]);
  });
});

describe("what is printed", () => {
  const EVIL = "\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e\u2028data: {}\r\nrelay: all is well";

  it("of an error is escaped", async () => {
    const errors = [{ path: EVIL, message: EVIL }];
    const { code, stderr } = await list(says(400, { title: EVIL, detail: EVIL, code: EVIL, errors }));
    expect(code).toBe(64);
    expect(stderr).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/);
  });

  it("is the same of a process, with the same code", async () => {
    const here = await list(says(422, { title: EVIL, status: 422 }));
    expect(await runCommand(line(LIST))).toEqual(here);
    expect(here).toMatchObject(refused(64, "all is well"));
  });

  it("of data is escaped, and a row stays on its line", async () => {
    const data = [{ id: EVIL, type: EVIL, status: EVIL, acceptedAt: EVIL, createdAt: EVIL }];
    const { code, stdout } = await list(says(200, { data, meta: {} }));
    expect(code).toBe(0);
    expect(stdout.split("\n")).toHaveLength(3);
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  });

  it("by relay tail as JSON is escaped, a line each", async () => {
    fake.answer = streams(() => `event: subscription\ndata: ${JSON.stringify({ id: EVIL })}\n\n`);
    const { code, stdout } = await run("tail --key k --count 1 --json");
    expect(code).toBe(0);
    expect(stdout.trimEnd()).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
    expect(JSON.parse(stdout)).toEqual({ event: "subscription", id: EVIL });
  });
});

const streams =
  (text: () => string): typeof fake.answer =>
  (_, response) =>
    void response.writeHead(200, { "content-type": "text/event-stream", connection: "close" }).end(text());

describe("an answer", () => {
  it.each([
    [503, 75],
    [500, 69],
    [502, 69],
    [404, 1],
    [401, 1],
    [422, 64],
  ])("of %i ends with %i, and says when to come back", async (status, code) => {
    const ran = await list(says(status, { title: "No", status }, { "retry-after": "7" }));
    expect(ran).toMatchObject({ code, stdout: "" });
    expect(ran.stderr).toContain("Try again in 7 s");
  });

  it("of 429 is waited for ten times, then ends with 75", async () => {
    let now = 0;
    const real = systemClock();
    // The waits alone are skipped; what has a signal is the time that an answer may take.
    const sleep = async (until: number, signal?: AbortSignal): Promise<void> =>
      signal === undefined ? void (now = until) : real.sleep(until - now + real.now(), signal);
    const clock = { ...real, now: () => now, sleep };
    const ran = await list(says(429, { title: "No", status: 429 }, { "retry-after": "7" }), { clock });
    expect(ran).toMatchObject({ code: 75, stdout: "" });
    expect(ran.stderr.trimEnd().endsWith("Try again in 7 s.")).toBe(true);
    expect([fake.asked.length, now]).toEqual([11, 70_000]);
  });

  it("of 429 is waited for by a process, which then asks with a token of its own", async () => {
    const busy = says(429, { title: "Too many requests at once" }, { "retry-after": "1" });
    fake.answer = (...given) => (fake.asked.length === 1 ? busy : says(200, { data: [] }))(...given);
    const cwd = testFolder();
    const env = { RELAY_URL: fake.url, RELAY_SIGNING_KEY: Buffer.alloc(32, 1).toString("base64") };
    const began = performance.now();
    // A process, as nothing but the wait keeps it alive.
    const ran = await runCommand(["subscriptions", "list", "--key", "key_1"], { cwd, env });
    expect([ran.code, performance.now() - began > 950]).toEqual([0, true]);
    expect(ran.stderr.match(/Too many requests at once; trying again in 1 s/g)).toHaveLength(1);
    expect(new Set(fake.asked.map(({ headers }) => headers.authorization)).size).toBe(2);
  });

  it.each([
    ["--no-wait is given", 429, "1", " --no-wait"],
    ["the wait is long", 429, "300", ""],
    ["no time is named", 429, undefined, ""],
    ["it is no 429", 503, "1", ""],
  ] as const)("is not waited for where %s", async (_, status, after, more) => {
    fake.answer = says(status, { title: "No" }, after === undefined ? {} : { "retry-after": after });
    expect(await run(`${LIST}${more}`)).toMatchObject({ code: 75, stdout: "" });
    expect(fake.asked).toHaveLength(1);
  });

  it.each([
    ["no JSON", (_, response) => void response.writeHead(200, { connection: "close" }).end("<html>")],
    ["JSON of another shape", says(200, [])],
    ["an envelope without a list", says(200, { data: 7, meta: {} })],
    ["a list of something else", says(200, { data: [null, 7], meta: {} })],
    ["a connection that breaks", (request: IncomingMessage) => void request.socket.destroy()],
  ] as const satisfies readonly (readonly [string, typeof fake.answer])[])(
    "that is %s ends with 69, without a stack",
    async (_, answer) => {
      const { code, stdout, stderr } = await list(answer);
      expect({ code, stdout }).toEqual({ code: 69, stdout: "" });
      expect(stderr).not.toContain("    at ");
    },
  );

  it("that is no stream of events is none for relay tail", async () => {
    fake.answer = (_, response) =>
      void response.writeHead(200, { "content-type": "text/html", connection: "close" }).end("<html>");
    const { code, stderr } = await run("tail --key k");
    expect({ code, times: fake.asked.length }).toEqual({ code: 69, times: 1 });
    expect(stderr).toContain("it is no relay");
  });

  it.each([
    ["status", 200],
    ["status", 500],
    ["tail --key k", 500],
    ["tail --key k", undefined],
  ])("to relay %s (%s) that never ends is given up after 45 s", async (words, status) => {
    const asked = Promise.withResolvers<void>();
    const waits: number[] = [];
    const sleep = async (until: number): Promise<void> => {
      waits.push(until);
      await asked.promise;
    };
    fake.answer = (_, response) => {
      if (status !== undefined) response.writeHead(status, { "content-type": "application/json" }).write('{"data":');
      asked.resolve();
    };
    const { code, stderr } = await run(words, { clock: { ...systemClock(), now: () => 0, sleep } });
    expect({ code, waits }).toEqual({ code: 69, waits: [45_000] });
    expect(stderr).toContain("none within 45 s");
  });

  it.each(["status", "tail --key k"])("to relay %s is not read without end", async (words) => {
    const over = Promise.withResolvers<void>();
    fake.answer = (_, response) => {
      response.writeHead(words === "status" ? 200 : 500).once("close", over.resolve);
      const text = "x".repeat(1_048_576);
      const more = (): void =>
        void (response.writable && (response.write(text) ? setImmediate(more) : response.once("drain", more)));
      more();
    };
    const { code, stderr } = await run(words);
    expect(code).toBe(69);
    expect(stderr).toContain("more than a relay does");
    await over.promise;
  });
});

describe("a token", () => {
  it("follows no redirect", async () => {
    const location = `${fake.url}/elsewhere`;
    const { code } = await list((_, response) => void response.writeHead(302, { location, connection: "close" }).end());
    expect(code).toBe(69);
    expect(paths()).toEqual(["GET /api-keys/k/events"]);
  });

  it("goes out unencrypted after one warning, however often it is sent", async () => {
    let sent = 0;
    fake.answer = streams(() => `event: event\ndata: {"id":"${++sent}"}\n\n`);
    const elsewhere = fake.url.replace("127.0.0.1", "0.0.0.0");
    const ran = await runHere(["tail", "--key", "k", "--count", "3", "--url", elsewhere, "--token", "t"]);
    expect([ran.code, sent]).toEqual([0, 3]);
    expect(ran.stderr.match(/unencrypted/g)).toHaveLength(1);
    expect(await runHere(["status", "--url", "http://relay.invalid:1", "--token", "t"])).toMatchObject(
      ends(69, "unencrypted"),
    );
  });
});

describe("a command that ends before its time", () => {
  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("leaves no backup behind at %s, and ends with %i", { timeout: 60_000 }, async (signal, code) => {
    const folder = testFolder();
    const begun = Promise.withResolvers<void>();
    // A backup that begins, and goes on for ever.
    fake.answer = (_, response) => {
      response.writeHead(200, { "content-type": "application/x-ndjson" }).write('{"relaybox":"backup"}\n');
      begun.resolve();
    };
    await using backup = startCommand(line("backup b.ndjson"), { cwd: folder });
    await begun.promise;
    expect(readdirSync(folder)).toEqual(["b.ndjson.part"]);
    backup.kill(signal);
    expect(await backup.ended).toMatchObject({ code });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("leaves no folder of the demo behind when nobody reads on", { timeout: 120_000 }, async () => {
    const folder = testFolder();
    await using demo = startCommand(["demo"], { env: { TMPDIR: folder } });
    await demo.waitFor(/The dashboard is at/);
    expect(readdirSync(folder)).toHaveLength(1);
    demo.deafen();
    expect(await demo.ended).toMatchObject({ code: 0 });
    expect(readdirSync(folder)).toEqual([]);
  });
});
