// Two relays that share nothing behind nginx as deploy/nginx/cells.conf has it: each API key lives in one of them.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startNginx } from "../support/nginx.ts";

const missing = needs("nginx");

it("cells behind nginx take the events of their own API keys, and no other", { timeout: 120_000 }, async ({ skip }) => {
  skip(missing !== undefined, missing);
  const base = testFolder();
  const start = (name: string, keys: string): Promise<ChildRelay> => {
    const folder = join(base, name);
    mkdirSync(folder);
    const sources = `sources: [http({ tokens: [{ token: "token-of-the-publishers", keys: [${keys}] }] })],`;
    return startChild(folder, { imports: ["http"], config: sources });
  };
  await using a = await start("a", '"key_1"');
  await using b = await start("b", '"key_2", "eu:1"');
  await using nginx = await startNginx(a.url, b.url, "cells.conf", (config) =>
    config.replace("127.0.0.1:8081", new URL(a.url).host).replace("127.0.0.1:8082", new URL(b.url).host),
  );
  const at = (path: string): string => `http://127.0.0.1:${nginx.port}${path}`;
  const publish = async (key: string, keyId = key): Promise<number> => {
    const headers = {
      authorization: "Bearer token-of-the-publishers",
      "content-type": "application/json",
      "x-relay-key": key,
    };
    const body = JSON.stringify({ type: "a:b", keyId, data: 1 });
    const answer = await request(at("/events"), { method: "POST", headers, body });
    await answer.body.dump();
    return answer.statusCode;
  };
  expect(await publish("key_1")).toBe(202);
  expect(await publish("key_2")).toBe(202);
  expect(await publish("eu:1")).toBe(202);
  const count = async (relay: ChildRelay, key: string): Promise<number> =>
    (await relay.call("GET", `/api-keys/${key}/events`)).json.data.length as number;
  expect([await count(a, "key_1"), await count(a, "key_2"), await count(a, "eu:1")]).toEqual([1, 0, 0]);
  expect([await count(b, "key_1"), await count(b, "key_2"), await count(b, "eu:1")]).toEqual([0, 1, 1]);
  // One that nobody has placed, and one whose header says another key than the event: nothing is stored.
  expect(await publish("key_3")).toBe(404);
  expect(await publish("key_1", "key_2")).toBe(404);
  // The management API goes to the cell of the key in its path.
  const listed = await request(at("/api-keys/key_2/events"));
  await listed.body.dump();
  expect(listed.statusCode).toBe(401);
  const unknown = await request(at("/api-keys/key_9/events"));
  expect([unknown.statusCode, await unknown.body.text()]).toEqual([
    404,
    expect.stringContaining("No cell has this API key"),
  ]);
});
