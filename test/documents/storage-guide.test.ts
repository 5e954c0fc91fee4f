// The config of docs/storage.md with a driver of unstorage: a relay runs on it, keeps what it has over a restart, and says that
// it promises less.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, it } from "vitest";
import { request } from "undici";
import { startCommand } from "../support/command.ts";

const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/storage.md"), "utf8");
const TOKEN = "publish-token-of-the-guide";

let folder: string;
beforeAll(() => {
  // Inside the project, so that the driver is found, where neither git nor the linter looks.
  mkdirSync(join(root, "dist"), { recursive: true });
  folder = mkdtempSync(join(root, "dist/storage-guide-"));
  const [, config = ""] = /^```ts storage\n([\s\S]*?)^```$/m.exec(page) ?? [];
  writeFileSync(join(folder, "relay.config.ts"), config);
});
afterAll(() => rmSync(folder, { recursive: true }));

const start = (cwd = folder) =>
  startCommand(["start"], { cwd, env: { RELAY_PORT: "0", RELAY_PUBLISH_TOKEN: TOKEN, NO_COLOR: "1" } });

async function publish(url: string) {
  const answer = await request(`${url}/events`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: '{"id": "one", "type": "deposit:paid", "keyId": "key_1", "data": 1}',
  });
  const { data } = (await answer.body.json()) as { readonly data: { readonly duplicate: boolean } };
  return { status: answer.statusCode, durability: answer.headers["relay-durability"], duplicate: data.duplicate };
}

it("runs on a driver of unstorage, says what that is worth, and keeps its events over a restart", async () => {
  for (const duplicate of [false, true]) {
    await using relay = start();
    const [, url = ""] = await relay.waitFor(/(http:\/\/127\.0\.0\.1:\d+)(?![\d/])/);
    await relay.waitFor(/promises less/);
    expect(await publish(url)).toEqual({ status: 202, durability: "volatile", duplicate });
    relay.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
  }
  expect(readdirSync(join(folder, "items")).length).toBeGreaterThan(0);
});

it("keeps its events when the file of a stopped relay is rewritten to give space back", async () => {
  const [, sql = ""] = /^sqlite3 data\/relay\.db '(.*)'$/m.exec(page) ?? [];
  const own = join(folder, "own");
  mkdirSync(own);
  for (const duplicate of [false, true]) {
    await using relay = start(own);
    const [, url = ""] = await relay.waitFor(/(http:\/\/127\.0\.0\.1:\d+)(?![\d/])/);
    expect(await publish(url)).toEqual({ status: 202, durability: "fsync", duplicate });
    relay.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
    const database = new DatabaseSync(join(own, "data/relay.db"));
    database.exec(sql);
    database.close();
  }
});
