// The paths that commands ask for: an argument is one segment, and never names another path.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { runHere } from "../support/command-here.ts";

let server: Server;
let url: string;
let asked: string[] = [];
beforeAll(async () => {
  server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.writeHead(202, { "content-type": "application/json", connection: "close" }).end('{"data":{}}');
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => void server.once("listening", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => new Promise((resolve) => void server.close(resolve)));
beforeEach(() => void (asked = []));

const run = (...args: string[]) => runHere([...args, "--url", url, "--token", "t"]);
const KEY = ["--key", "k"];

// As parts of a URL they stand for the path above: `events/../replay` of a key replays all that failed on it.
it.each([
  ["replay", "..", ...KEY],
  ["replay", ...KEY, "--subscription", ".."],
  ["events", "delete", ".", ...KEY],
  ["subscriptions", "delete", "..", ...KEY],
  ["api-keys", "erase", "..", "--yes"],
  ["users", "remove", ".."],
  ["users", "reset", "..", "--totp-off"],
])("%s %s %s %s %s asks for nothing, and ends with 64", async (...args) => {
  const { code, stderr } = await run(...args);
  expect({ code, asked }).toEqual({ code: 64, asked: [] });
  expect(stderr).toMatch(/"\.\.?" is no (?:id|name)/);
});

it.each([
  ["events", "show", "", ...KEY],
  ["replay", "", ...KEY],
  ["backup", ""],
])("%s %s with an empty argument ends with 64", async (...args) => {
  const { code, stderr } = await run(...args);
  expect({ code, asked }).toEqual({ code: 64, asked: [] });
  expect(stderr).toContain("an argument is empty");
});

it("keeps what looks like a path inside its segment", async () => {
  await run("events", "show", "../a?b#c", ...KEY);
  expect(asked).toEqual(["GET /api-keys/k/events/..%2Fa%3Fb%23c"]);
});
