// The command against a server that means it ill: nothing reaches the terminal raw, no token goes further than told.
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { runHere, type HereOptions } from "../support/command-here.ts";
import { runCommand, type Ran } from "../support/command.ts";

let server: Server;
let url: string;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let asked: string[] = [];
beforeAll(async () => {
  server = createServer((request, response) => {
    asked.push(request.url ?? "");
    answer(request, response);
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => void server.once("listening", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => new Promise((resolve) => void server.close(resolve)));

const LIST = ["events", "list", "--key", "k", "--token", "t"];

async function list(reply: typeof answer, options: HereOptions = {}): Promise<Ran> {
  asked = [];
  answer = reply;
  return runHere([...LIST, "--url", url], options);
}
const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): typeof answer =>
  (_, response) =>
    response
      .writeHead(status, { "content-type": "application/json", connection: "close", ...headers })
      .end(JSON.stringify(body));

const EVIL = "\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e\r\nrelay: all is well";

it("escapes what it prints of an error", async () => {
  const { code, stderr } = await list(
    json(400, { title: EVIL, detail: EVIL, code: EVIL, errors: [{ path: EVIL, message: EVIL }] }),
  );
  expect(code).toBe(64);
  expect(stderr).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/);
});

it("ends as a process with the same code and words", async () => {
  answer = json(422, { title: EVIL, status: 422 });
  const ran = await runCommand([...LIST, "--url", url]);
  expect(ran).toEqual(await runHere([...LIST, "--url", url]));
  expect(ran).toMatchObject({ code: 64, stdout: "", stderr: expect.stringContaining("all is well") });
});

it("escapes what it prints of data, and keeps a row on its line", async () => {
  const { code, stdout } = await list(
    json(200, { data: [{ id: EVIL, type: EVIL, status: EVIL, acceptedAt: EVIL, createdAt: EVIL }], meta: {} }),
  );
  expect(code).toBe(0);
  expect(stdout.split("\n")).toHaveLength(3);
  expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
});

it("escapes what relay tail prints as JSON, a line each", async () => {
  answer = (_, response) =>
    response
      .writeHead(200, { "content-type": "text/event-stream", connection: "close" })
      .end(`event: subscription\ndata: ${JSON.stringify({ id: EVIL })}\n\n`);
  const { code, stdout } = await runHere([
    "tail",
    "--key",
    "k",
    "--count",
    "1",
    "--json",
    "--url",
    url,
    "--token",
    "t",
  ]);
  expect(code).toBe(0);
  expect(stdout.trimEnd()).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
  expect(JSON.parse(stdout)).toEqual({ event: "subscription", id: EVIL });
});

it.each([
  [503, 75],
  [500, 69],
  [502, 69],
  [404, 1],
  [401, 1],
  [422, 64],
])("turns %i into the exit code %i and says when to come back", async (status, code) => {
  const ran = await list(json(status, { title: "No", status }, { "retry-after": "7" }));
  expect(ran).toMatchObject({ code, stdout: "" });
  expect(ran.stderr).toContain("Try again in 7 s");
});

it("waits ten times when it is asked to, then ends with 75 and says when to come back", async () => {
  let now = 0;
  const real = systemClock();
  // The waits alone are skipped; what has a signal is the time that an answer may take.
  const sleep = async (until: number, signal?: AbortSignal): Promise<void> =>
    signal === undefined ? void (now = until) : real.sleep(until - now + real.now(), signal);
  const clock = { ...real, now: () => now, sleep };
  const ran = await list(json(429, { title: "No", status: 429 }, { "retry-after": "7" }), { clock });
  expect(ran).toMatchObject({ code: 75, stdout: "" });
  expect(ran.stderr.trimEnd().endsWith("Try again in 7 s.")).toBe(true);
  expect(asked).toHaveLength(11);
  expect(now).toBe(70_000);
});

it("follows no redirect with its token", async () => {
  const { code } = await list((_, response) =>
    response.writeHead(302, { location: `${url}/elsewhere`, connection: "close" }).end(),
  );
  expect(code).toBe(69);
  expect(asked).toEqual(["/api-keys/k/events"]);
});

it.each([
  [
    "no JSON",
    (_: IncomingMessage, response: ServerResponse) =>
      void response.writeHead(200, { connection: "close" }).end("<html>"),
  ],
  ["JSON of another shape", json(200, [])],
  ["an envelope without a list", json(200, { data: 7, meta: {} })],
  ["a list of something else", json(200, { data: [null, 7], meta: {} })],
  ["a connection that breaks", (request: IncomingMessage) => void request.socket.destroy()],
])("says 69 for %s, without a stack", async (_, reply) => {
  const { code, stdout, stderr } = await list(reply);
  expect({ code, stdout }).toEqual({ code: 69, stdout: "" });
  expect(stderr).not.toContain("    at ");
});

it("warns once before tokens go out unencrypted, however often it asks", async () => {
  let streams = 0;
  answer = (_, response) =>
    response
      .writeHead(200, { "content-type": "text/event-stream", connection: "close" })
      .end(`event: event\ndata: {"id":"${++streams}"}\n\n`);
  const elsewhere = url.replace("127.0.0.1", "0.0.0.0");
  const ran = await runHere(["tail", "--key", "k", "--count", "3", "--url", elsewhere, "--token", "t"]);
  expect([ran.code, streams]).toEqual([0, 3]);
  expect(ran.stderr.match(/unencrypted/g)).toHaveLength(1);
});

it("warns before a token goes out unencrypted", async () => {
  const ran = await runHere(["status", "--url", "http://relay.invalid:1", "--token", "t"]);
  expect(ran.code).toBe(69);
  expect(ran.stderr).toContain("unencrypted");
});
