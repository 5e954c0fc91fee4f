// Links to the portal on two nodes with one Redis: made, used and ended on either, over a restart and a wrong clock.
import { existsSync } from "node:fs";
import { request } from "undici";
import { describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { TEST_KEYS } from "../support/relay.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startRedis } from "../support/redis.ts";

const LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
const LINKS = "/api-keys/key_a/portal-links";

/** Tokens of the operator, old enough for a node whose clock is behind. */
const operator = mintToken(
  makeKeys(TEST_KEYS),
  { sub: "tester", keys: ["*"], mfa: true, ttlMs: 3_600_000 },
  { now: () => Date.now() - 120_000 },
);

async function call({ url }: ChildRelay, method: "POST" | "DELETE", body?: object) {
  const headers = { authorization: `Bearer ${await operator}`, "content-type": "application/json" };
  return await request(`${url}${LINKS}`, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
}

async function link(relay: ChildRelay): Promise<string> {
  const made = await call(relay, "POST", { access: "read", expiresInSeconds: 3_600 });
  expect(made.statusCode).toBe(201);
  const { data } = (await made.body.json()) as { readonly data: { readonly url: string } };
  return new URL(data.url).hash.slice("#link=".length);
}

async function end(relay: ChildRelay): Promise<void> {
  const answer = await call(relay, "DELETE");
  await answer.body.dump();
  expect(answer.statusCode).toBe(204);
}

/** The status of a list of the key's events, asked for with a link. */
async function opened({ url }: ChildRelay, token: string): Promise<number> {
  const answer = await request(`${url}/api-keys/key_a/events`, { headers: { authorization: `Bearer ${token}` } });
  await answer.body.dump();
  return answer.statusCode;
}

/** A node whose clock is wrong by so much. */
const clockOf = (offset: string): Record<string, string> =>
  offset === "+0" ? {} : { LD_PRELOAD: LIBRARY, FAKETIME: offset, DONT_FAKE_MONOTONIC: "1" };

describe("a portal link on two nodes", { timeout: 180_000 }, () => {
  it.for(["+0", "+90s", "-90s"])(
    "opens the key on both, and is refused on both once it is ended on either, with one clock off by %s",
    async (offset, { skip }) => {
      const clock = offset === "+0" ? undefined : (needs("faketime") ?? (existsSync(LIBRARY) ? undefined : LIBRARY));
      const missing = needs("redis") ?? clock;
      skip(missing !== undefined, missing);
      await using redis = await startRedis();
      const folders = [testFolder(), testFolder()] as const;
      const start = (i: 0 | 1): Promise<ChildRelay> =>
        startChild(folders[i], {
          imports: ["redis"],
          config: `storage: redis({ url: "${redis.url}" }),`,
          env: i === 1 ? clockOf(offset) : {},
        });
      await using right = await start(0);
      let wrong = await start(1);
      try {
        await right.publish({ type: "a:b", keyId: "key_a", data: 1 });
        const [here, there] = [await link(right), await link(wrong)];
        for (const node of [right, wrong])
          for (const token of [here, there]) expect(await opened(node, token)).toBe(200);

        await wrong.kill();
        await wrong[Symbol.asyncDispose]();
        wrong = await start(1);
        for (const token of [here, there]) expect(await opened(wrong, token)).toBe(200);

        // Ended on one, both are refused on both; at once, and after a restart.
        await end(right);
        for (const node of [right, wrong])
          for (const token of [here, there]) expect(await opened(node, token)).toBe(401);
        await wrong.kill();
        await wrong[Symbol.asyncDispose]();
        wrong = await start(1);
        for (const token of [here, there]) expect(await opened(wrong, token)).toBe(401);

        // Those that are made afterwards open it, until they are ended on the other one.
        const fresh = [await link(right), await link(wrong)];
        for (const node of [right, wrong]) for (const token of fresh) expect(await opened(node, token)).toBe(200);
        await end(wrong);
        for (const node of [right, wrong]) for (const token of fresh) expect(await opened(node, token)).toBe(401);
      } finally {
        await wrong[Symbol.asyncDispose]();
      }
    },
  );
});
