// Links to the portal on two nodes with one Redis: made, used and ended on either, over a restart and a wrong clock.
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { TEST_KEYS } from "../support/relay.ts";
import { clockOff, noFaketime } from "../support/faketime.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";

/** Tokens of the operator, old enough for a node whose clock is behind. */
const operator = mintToken(
  makeKeys(TEST_KEYS),
  { sub: "tester", keys: ["*"], mfa: true, ttlMs: 3_600_000 },
  { now: () => Date.now() - 120_000 },
);

async function call({ url }: ChildRelay, key: string, method: "POST" | "DELETE", body?: object) {
  const headers = { authorization: `Bearer ${await operator}`, "content-type": "application/json" };
  return await request(`${url}/api-keys/${key}/portal-links`, {
    method,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  });
}

async function link(relay: ChildRelay, key: string): Promise<string> {
  const made = await call(relay, key, "POST", { access: "read", expiresInSeconds: 3_600 });
  expect(made.statusCode).toBe(201);
  const { data } = (await made.body.json()) as { readonly data: { readonly url: string } };
  return new URL(data.url).hash.slice("#link=".length);
}

async function end(relay: ChildRelay, key: string): Promise<void> {
  const answer = await call(relay, key, "DELETE");
  await answer.body.dump();
  expect(answer.statusCode).toBe(204);
}

/** The statuses of lists of the key's events, asked for with each link on each node. */
const opened = (nodes: readonly ChildRelay[], key: string, links: readonly string[]): Promise<number[]> =>
  Promise.all(
    nodes.flatMap(({ url }) =>
      links.map(async (token) => {
        const headers = { authorization: `Bearer ${token}` };
        const answer = await request(`${url}/api-keys/${key}/events`, { headers });
        await answer.body.dump();
        return answer.statusCode;
      }),
    ),
  );
const YES = [200, 200, 200, 200];
const NO = [401, 401, 401, 401];

describe("a portal link on two nodes", { timeout: 180_000 }, () => {
  const noRedis = needs("redis");
  let redis: RedisServer;
  let right: ChildRelay;
  const start = (env: Record<string, string> = {}): Promise<ChildRelay> =>
    startChild(testFolder(), { imports: ["redis"], config: `storage: redis({ url: "${redis.url}" }),`, env });
  beforeAll(async () => {
    if (noRedis !== undefined) return;
    redis = await startRedis();
    right = await start();
  });
  afterAll(async () => {
    await right?.[Symbol.asyncDispose]();
    await redis?.[Symbol.asyncDispose]();
  });

  it.concurrent.for(["+0", "+90s", "-90s"])(
    "opens the key on both, and is refused on both once it is ended on either, with one clock off by %s",
    async (offset, { skip }) => {
      const missing = noRedis ?? (offset === "+0" ? undefined : noFaketime);
      skip(missing !== undefined, missing);
      const name = { "+0": "even", "+90s": "ahead", "-90s": "behind" }[offset] as string;
      // The links of one key are ended, those of the other stay.
      const [ended, kept] = [`key_ended_${name}`, `key_kept_${name}`] as const;
      let wrong = await start(clockOff(offset));
      try {
        const linked = new Map<string, readonly string[]>();
        for (const key of [ended, kept]) {
          await right.publish({ type: "a:b", keyId: key, data: 1 });
          linked.set(key, [await link(right, key), await link(wrong, key)]);
        }
        const open = (key: string) => opened([right, wrong], key, linked.get(key) ?? []);
        for (const key of [ended, kept]) expect(await open(key)).toEqual(YES);

        // Ended on one, both are refused on both; at once, and after a restart.
        await end(right, ended);
        expect([await open(ended), await open(kept)]).toEqual([NO, YES]);
        await wrong.kill();
        await wrong[Symbol.asyncDispose]();
        wrong = await start(clockOff(offset));
        expect([await open(ended), await open(kept)]).toEqual([NO, YES]);

        // Those that are made afterwards open it, until they are ended on the other one.
        linked.set(ended, [await link(right, ended), await link(wrong, ended)]);
        expect(await open(ended)).toEqual(YES);
        await end(wrong, ended);
        expect([await open(ended), await open(kept)]).toEqual([NO, YES]);
      } finally {
        await wrong[Symbol.asyncDispose]();
      }
    },
  );
});
