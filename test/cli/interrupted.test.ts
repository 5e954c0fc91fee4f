// Commands that end before their time: nothing that is half made stays.
import { readdirSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startCommand } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";

let server: Server;
let url: string;
let asked: () => void;
beforeAll(async () => {
  // A backup that begins, and goes on for ever.
  server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "application/x-ndjson" }).write('{"relaybox":"backup"}\n');
    asked();
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => void server.once("listening", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  return new Promise((resolve) => void server.close(resolve));
});

it.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const)("relay backup leaves nothing behind at %s, and ends with %i", { timeout: 60_000 }, async (signal, code) => {
  const folder = testFolder();
  const begun = new Promise<void>((resolve) => void (asked = resolve));
  await using backup = startCommand(["backup", "b.ndjson", "--url", url, "--token", "t"], { cwd: folder });
  await begun;
  expect(readdirSync(folder)).toEqual(["b.ndjson.part"]);
  backup.kill(signal);
  expect(await backup.ended).toMatchObject({ code });
  expect(readdirSync(folder)).toEqual([]);
});

it("relay demo removes its folder when nobody reads on", { timeout: 120_000 }, async () => {
  const folder = testFolder();
  await using demo = startCommand(["demo"], { env: { TMPDIR: folder } });
  await demo.waitFor(/The dashboard is at/);
  expect(readdirSync(folder)).toHaveLength(1);
  demo.deafen();
  expect(await demo.ended).toMatchObject({ code: 0 });
  expect(readdirSync(folder)).toEqual([]);
});
