// Two nodes with one config on one Redis are one relay: its keys, its events, its ticks, its limits and its sessions.
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import type { ChildRelay } from "../support/child-relay.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startNodes, type Nodes } from "../support/nodes.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRedis } from "../support/redis.ts";
import { TEST_ENV } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const missing = needs("redis");
const HOOKS = (key: string): string => `/api-keys/${key}/webhooks`;
const LIST = HOOKS("key_limits");
const SUSPENDED = "/api-keys/key_limits/audit";
const PASSWORD = "correct horse battery";
const CONFIG = `
  log: { level: "info" },
  jobs: [retention({ schedule: "* * * * * *", deliveredAfterMs: 86_400_000 })],
  abuse: {},
  limits: {
    ...Object.fromEntries(["POST /api-keys/{keyId}/webhooks", "POST /auth/login", "POST /auth/step-up"].map((row) => [row, { perMinute: 1_000, per5s: 1_000 }])),
    "GET ${HOOKS("{keyId}")}": { perMinute: 10, per5s: 10 },
    "GET /api-keys/{keyId}/audit": { perMinute: 2, per5s: 2 },
    "GET /relay/status": { perMinute: 1_000, per5s: 1_000 },
  },`;

interface Asked {
  readonly status: number;
  readonly json: ReturnType<typeof JSON.parse>;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

async function ask(node: ChildRelay, method: string, path: string, body?: unknown, bearer?: string): Promise<Asked> {
  const answer = await request(node.url + path, {
    method: method as "GET",
    headers: {
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const text = await answer.body.text();
  return { status: answer.statusCode, headers: answer.headers, json: text === "" ? undefined : JSON.parse(text) };
}

describe.skipIf(missing !== undefined)(`two nodes${missing === undefined ? "" : ` (${missing})`}`, () => {
  let nodes: Nodes;
  let a: ChildRelay;
  let b: ChildRelay;
  beforeAll(async () => {
    nodes = await startNodes({ config: CONFIG, imports: ["retention"] });
    [a, b] = nodes.all as [ChildRelay, ChildRelay];
  });
  afterAll(() => nodes?.[Symbol.asyncDispose]());

  it("know of each other", async () => {
    for (const node of [a, b]) {
      const { storage } = (await node.call("GET", "/relay/status")).json.data;
      expect(storage).toMatchObject({ name: "redis", nodes: 2, listening: true });
    }
  });

  it("deliver once what is published to either, each of them their part, fairly over subscriptions", async () => {
    await using receiver = await startReceiver({ otherwise: { do: "reply", delayMs: 10 } });
    for (const key of ["key_big", "key_small"]) {
      const made = await a.call("POST", HOOKS(key), { url: receiver.url(`/${key}`), events: ["*"] });
      expect(made.status).toBe(201);
    }
    const batch = (key: string, count: number): unknown =>
      Array.from({ length: count }, (_, i) => ({ type: "a:b", keyId: key, data: i }));
    const ids: string[] = [];
    const publish = async (node: ChildRelay, body: unknown): Promise<void> => {
      const told = await node.publish(body);
      expect(told.status).toBe(202);
      for (const { id } of told.json.data) ids.push(id);
    };
    await Promise.all([
      publish(a, batch("key_big", 1_000)),
      publish(b, batch("key_big", 1_000)),
      publish(b, batch("key_small", 20)),
    ]);
    const beforeSmall = (): number => {
      const last = receiver.requests.findLastIndex(({ path }) => path === "/key_small");
      return receiver.requests.slice(0, last).filter(({ path }) => path === "/key_big").length;
    };
    await receiver.waitFor(2_020, 120_000);
    // The small one did not wait for the big one's backlog.
    expect(beforeSmall()).toBeLessThan(1_500);
    const seen = receiver.requests.map(({ headers }) => String(headers["webhook-id"]));
    expect(new Set(seen)).toEqual(new Set(ids));
    expect(seen).toHaveLength(ids.length);
    await b.idle();
    for (const node of [a, b]) {
      const lines = node.running.stderr() + node.running.stdout();
      expect(lines.split("\n").filter((line) => line.includes('"msg":"attempt"')).length).toBeGreaterThan(200);
    }
  });

  it("run each tick of a job once", async () => {
    const lines = (text: string): string[] =>
      [a, b].flatMap(({ running }) =>
        (running.stderr() + running.stdout()).split("\n").filter((line) => line.includes(text)),
      );
    const ticks = (): { readonly tick: string }[] =>
      lines('"msg":"job"').map((line) => JSON.parse(line) as { tick: string });
    const from = ticks().length;
    await eventually("four ticks", () => ticks().length >= from + 4, 8_000);
    const slots = ticks().map(({ tick }) => tick);
    expect(new Set(slots).size).toBe(slots.length);
    const seconds = slots.map((slot) => Date.parse(slot) / 1_000).toSorted((x, y) => x - y);
    // Every second from the first to the last, but for those at which the job still ran, as on a busy machine.
    const missing = (seconds.at(-1) as number) - (seconds[0] as number) + 1 - seconds.length;
    expect(missing).toBeLessThanOrEqual(lines("a tick of it is left out").length);
  });

  it("give a client one limit for both", async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => (i % 2 === 0 ? a : b).call("GET", LIST)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    const codes = answers.filter(({ status }) => status === 429).map(({ json }) => json.code);
    expect(codes).toHaveLength(20);
  });

  it("suspend a client on both", async () => {
    const answers = [];
    for (let i = 0; i < 14; i++) answers.push(await (i % 2 === 0 ? a : b).call("GET", SUSPENDED));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2);
    for (const node of [a, b]) {
      const refused = await node.call("GET", SUSPENDED);
      expect([refused.status, refused.json.code]).toEqual([429, "ABUSE_SUSPEND"]);
    }
  });

  it("share accounts: a logout holds on both, and a code works once over both", async () => {
    const codes = nodes.folders.map((folder) => readFileSync(join(folder, "data/setup-code"), "utf8").trim());
    let made: Asked | undefined;
    // The code of the node that started last is the one that counts.
    for (const code of codes) {
      const tried = await ask(a, "POST", "/auth/setup", { code, username: "ada", password: PASSWORD });
      if (tried.status === 201) made = tried;
    }
    expect(made?.status).toBe(201);
    const first = made?.json.data.token as string;
    expect((await ask(b, "GET", "/api-keys", undefined, first)).status).toBe(200);

    const begun = await ask(b, "POST", "/auth/totp", { password: PASSWORD }, first);
    const secret = new URL(begun.json.data.uri as string).searchParams.get("secret") as string;
    const code = (step: number): string => totpCode(secret, Math.floor(Date.now() / 30_000) + step);
    const confirmedWith = code(-1);
    expect((await ask(a, "PUT", "/auth/totp", { code: confirmedWith }, first)).status).toBe(200);

    const login = (node: ChildRelay, with_: string): Promise<Asked> =>
      ask(node, "POST", "/auth/login", { username: "ada", password: PASSWORD, code: with_ });
    const now = code(0);
    const both = await Promise.all([login(a, now), login(b, now)]);
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 401]);
    expect((await login(b, now)).status).toBe(401);

    const { token } = (both.find(({ status }) => status === 200) as Asked).json.data as { token: string };
    expect((await ask(b, "GET", "/api-keys", undefined, token)).status).toBe(200);
    expect((await ask(a, "POST", "/auth/logout", undefined, token)).status).toBe(204);
    expect((await ask(b, "GET", "/api-keys", undefined, token)).status).toBe(401);
    expect((await ask(b, "GET", "/api-keys", undefined, first)).status).toBe(200);
  });
});

describe.skipIf(missing !== undefined)("a node with the wrong keys", () => {
  it("does not start: keys must be given, and the master key must be that of the others", async () => {
    await using redis = await startRedis();
    const folder = testFolder();
    const file = join(folder, "relay.config.ts");
    await writeFile(
      file,
      `import { defineRelay, redis } from "relaybox";
export default defineRelay({ server: { port: 0 }, storage: redis({ url: "${redis.url}" }), log: { level: "warn" } });`,
    );
    const start = (env: Record<string, string>) => runHere(["start", "--config", file], { cwd: folder, env });
    const without = await start({});
    expect(without.code).toBe(78);
    expect(without.stderr).toMatch(/RELAY_MASTER_KEY|master/);
    expect(without.stderr).toMatch(/RELAY_SIGNING_KEY|signing/);
    expect(without.stderr).toMatch(/RELAY_PUBLISH_TOKEN|publish/i);

    await using nodes = await startNodes({ count: 1, urls: () => [redis.url] });
    expect(nodes.all).toHaveLength(1);
    const other = await start({ ...TEST_ENV, RELAY_MASTER_KEY: Buffer.alloc(32, 9).toString("base64") });
    expect(other.code).toBe(78);
    expect(other.stderr).toMatch(/master key/);
    expect(other.stderr).not.toMatch(/listening/);
  });
});
