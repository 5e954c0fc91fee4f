// This edition reads, delivers, replays and restores what earlier ones have stored, on each storage that keeps it.
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import fsLite from "unstorage/drivers/fs-lite";
import { describe, expect, it } from "vitest";
import { filesystem, sqlite, unstorage } from "../../config/index.ts";
import type { Clock } from "../../core/ports/clock.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { accounts } from "../../plugins/auth/accounts.ts";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { redisAt } from "../../plugins/storage/redis.ts";
import { ADDRESS, EDITIONS, type EditionName, type Facts, KEYS, PASSWORD } from "../fixtures/editions/facts.ts";
import { STORAGES, type StorageName } from "../fixtures/editions/facts.ts";
import { testAuthority } from "../support/certificates.ts";
import { runHere } from "../support/command-here.ts";
import { testFolders } from "../support/folder.ts";
import { kept } from "../support/kept.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRedis } from "../support/redis.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { until } from "../support/until.ts";

const HOUR = 3_600_000;
const folders = testFolders();
const [host = "", port = ""] = ADDRESS.split(":");
const certificate = await (await testAuthority()).issue([host]);
const receiver = kept(await startReceiver({ host, port: Number(port), certificate }));

/** The system's clock, so many ms behind. */
function behind(ms: number): Clock {
  const { now, monotonic, sleep } = systemClock();
  return { now: () => now() - ms, monotonic, sleep: (at, signal) => sleep(at + ms, signal) };
}

function unpacked(edition: EditionName, name: StorageName): { readonly folder: string; readonly facts: Facts } {
  const folder = folders();
  const file = new URL(`../fixtures/editions/${edition}-${name}.tgz`, import.meta.url).pathname;
  execFileSync("tar", ["-xzf", file, "-C", folder]);
  return { folder, facts: JSON.parse(readFileSync(join(folder, "facts.json"), "utf8")) as Facts };
}

/** Unpacked, with its storage, to be started on. */
async function open(edition: EditionName, name: StorageName) {
  await using started = new AsyncDisposableStack();
  const { folder, facts } = unpacked(edition, name);
  const data = join(folder, "data");
  const server = name === "redis" ? started.use(await startRedis({ config: { dir: data } })) : undefined;
  const source = {
    sqlite: () => `sqlite({ dir: "${data}" })`,
    filesystem: () => `filesystem({ dir: "${data}/files" })`,
    unstorage: () => `unstorage(fsLite({ base: "${data}/items" }))`,
    redis: () => `redis({ url: "${server?.url}", prefix: "edition" })`,
  };
  const storage = (clock: Clock) =>
    ({
      sqlite: () => sqlite({ dir: data }),
      filesystem: () => filesystem({ dir: join(data, "files") }),
      unstorage: () => unstorage(fsLite({ base: join(data, "items") })),
      redis: () => redisAt({ url: server?.url ?? "", prefix: "edition" }, clock.now),
    })[name]();
  const kept = started.move();
  return {
    folder,
    facts,
    source: source[name](),
    start: (clock: Clock) => start(data, clock, storage(clock)),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

const start = (data: string, clock: Clock, storage: ReturnType<typeof sqlite>): Promise<TestRelay> =>
  startRelay(
    {
      storage,
      guard: { allow: ["127.0.0.0/8:*"], ca: join(data, "test-ca.pem") },
      jobs: [],
      auth: accounts(),
      limits: { "*": false, "GET /api-keys": { perMinute: 1, per5s: 1 } },
      abuse: { factor: 1, suspendMs: HOUR },
      retry: { attempts: 2, firstDelayMs: HOUR, maxDelayMs: HOUR },
      subscriptions: { perKey: 1000 },
      // A busy machine takes longer than 10 s for 300 receivers at once.
      delivery: { timeoutMs: 30_000, concurrency: 32 },
    },
    data,
    clock,
  );

const shown = async (relay: TestRelay, path: string, key = "key_1") => {
  const got = await relay.call("GET", `/api-keys/${key}${path}`);
  expect(got.status, got.text).toBe(200);
  return got.json.data;
};
const eventsOf = async (relay: TestRelay): Promise<Record<string, string>> => {
  const all = (await shown(relay, "/events?limit=200")) as { id: string; status: string }[];
  return Object.fromEntries(all.map(({ id, status }) => [id, status]));
};
const ended = (relay: TestRelay, id: string, key = "key_1"): Promise<void> =>
  until(async () => (await shown(relay, `/events/${id}`, key)).status !== "pending");
const sentOf = (id: string) => receiver.requests.filter(({ headers }) => headers["webhook-id"] === id);
const hex = (secret: string, body: Buffer): string => createHmac("sha256", secret).update(body).digest("hex");

/** Gets in with the second factor, whose last code was used at `facts.at` at the latest. */
async function login(relay: TestRelay, { at, totp }: Facts): Promise<void> {
  const body = { username: "alice", password: PASSWORD, code: totpCode(totp, Math.floor(at / 30_000) + 1) };
  const got = await relay.call("POST", "/auth/login", { token: null, body });
  expect([got.status, got.json.data?.amr], got.text).toEqual([200, expect.arrayContaining(["mfa"])]);
}

/** A new event is sent as the stored subscriptions ask for it, signed with the stored secrets. */
async function delivers(relay: TestRelay, { secrets }: Facts, id: string): Promise<void> {
  for (const type of ["ok", "rotated"]) {
    const event = { id: `${id}:${type}`, type: `a.${type}`, keyId: "key_1", data: { n: 2 } };
    expect((await relay.publish(event)).status).toBe(202);
    await ended(relay, event.id);
  }
  const [good] = sentOf(`${id}:ok`);
  expect(good?.headers["x-tenant"]).toBe("acme");
  const [signed] = sentOf(`${id}:rotated`);
  const [old = "", fresh = ""] = secrets["rotated"] ?? [];
  const body = signed?.body ?? Buffer.alloc(0);
  expect(signed?.headers).toMatchObject({
    "x-relay-webhook-signature": hex(fresh, body),
    "x-relay-webhook-signature-previous": hex(old, body),
  });
}

const DRIVER = import.meta.resolve("unstorage/drivers/fs-lite");
const ENVIRONMENT = {
  RELAY_MASTER_KEY: KEYS.master,
  RELAY_SIGNING_KEY: KEYS.signing,
  RELAY_PUBLISH_TOKEN: KEYS.publishToken,
};

/** Writes a config file for commands. */
function configOf(folder: string, storage: string): string {
  const config = join(folder, "relay.config.ts");
  writeFileSync(
    config,
    `import { defineRelay, filesystem, redis, sqlite, unstorage } from "relaybox";
import fsLite from "${DRIVER}";
void [filesystem, redis, sqlite, unstorage, fsLite];
export default defineRelay({ storage: ${storage}, dataDir: "./data" });\n`,
  );
  return config;
}

/** `check --data` says this of the event that was damaged. */
const DAMAGED: Readonly<Record<StorageName, RegExp>> = {
  sqlite: /^(?:is damaged|cannot be read)/m,
  redis: /^(?:is damaged|cannot be read)/m,
  filesystem: /^1 files lie in quarantine[^]*^belongs to an event that does not exist$/m,
  unstorage: /^1 item cannot be read[^]*^cannot be read/m,
};

const deliveriesOf = async (relay: TestRelay, id = "", query: string): Promise<readonly unknown[]> =>
  await shown(relay, `/webhooks/${id}/deliveries${query}`);

const told = Object.entries(EDITIONS).flatMap(([edition, words]) =>
  STORAGES.map((name) => ({ edition: edition as EditionName, words, name })),
);
const FIRST = "2e2877e";

describe.each(told)("what $words has stored with $name()", ({ edition, name }) => {
  it.skipIf(name === "redis" && needs("redis") !== undefined)(
    "is listed, delivered, replayed, and goes on",
    async () => {
      await using stored = await open(edition, name);
      const { facts, folder } = stored;
      const { subs } = facts;
      // In the hour in which it was made: nothing that waits is due.
      await using relay = await stored.start(behind(Date.now() - facts.at - 1_000));
      const before = receiver.requests.length;

      const sound = await eventsOf(relay);
      // Storages differ in what is left of the damaged one.
      const { "damaged:1": _, ...whole } = facts.events;
      expect(sound).toMatchObject(whole);
      expect(sound).toMatchObject({
        "ok:1": "delivered",
        "fails:1": "failed",
        "waits:1": "pending",
        "gone:1": "failed",
        "off:1": "failed",
        "deleted:1": "cancelled",
      });
      const [off] = (await shown(relay, "/events/off:1")).deliveries;
      expect(off).toMatchObject({ status: "failed", reason: "subscription_disabled", cycle: 0 });
      const listed = (await shown(relay, "/webhooks")) as { id: string; status: string; description?: string }[];
      expect(listed.find(({ id }) => id === subs["ok"])).toMatchObject({
        status: "active",
        headers: { "X-Tenant": null },
      });
      const actions = ((await shown(relay, "/audit?limit=200")) as { action: string }[]).map(({ action }) => action);
      expect(actions).toEqual(
        expect.arrayContaining(["subscription.created", "secret.rotated", "subscription.deleted"]),
      );

      await login(relay, facts);
      const pest = await relay.token({ sub: "pest" });
      const refused = await relay.call("GET", "/api-keys", { token: pest });
      expect([refused.status, refused.json.code]).toEqual([429, "ABUSE_SUSPEND"]);
      const again = { type: "a.ok", keyId: "key_1", data: "by its key" };
      const twice = await relay.publish(again, { "idempotency-key": "only-once" });
      expect(twice.json.data, twice.text).toMatchObject({ id: facts.idempotent, duplicate: true });
      const known = { id: "ok:1", type: "a.ok", keyId: "key_1", createdAt: "2020-02-03T04:05:06Z", data: { n: 1 } };
      expect((await relay.publish(known)).json.data).toMatchObject({ id: "ok:1", duplicate: true });
      expect(receiver.requests).toHaveLength(before);

      await delivers(relay, facts, `${edition}-${name}`);
      const now = await relay.call("POST", `/api-keys/key_1/events/waits:1/deliveries/${subs["waits"]}/attempt`);
      expect(now.status, now.text).toBe(204);
      const one = await relay.call("POST", "/api-keys/key_1/events/fails:1/replay", { body: {} });
      expect([one.status, one.json.data], one.text).toEqual([202, { deliveries: 1 }]);
      const rest = await relay.call("POST", `/api-keys/key_1/webhooks/${subs["fails"]}/replay`, { body: {} });
      expect(rest.json.data, rest.text).toMatchObject({ matched: 1, replayed: 1 });
      for (const id of ["waits:1", "fails:1", "fails:2"]) {
        await ended(relay, id);
        expect((await shown(relay, `/events/${id}`)).status).toBe("delivered");
      }
      if (edition !== FIRST) {
        const order = `/webhooks/${subs["ordered"]}/order`;
        expect(await shown(relay, order)).toMatchObject({ waiting: 2, held: [{ eventId: "ordered:1" }] });
        const skipped = await relay.call("POST", `/api-keys/key_1/webhooks/${subs["ordered"]}/skip`, { body: {} });
        expect(skipped.status, skipped.text).toBe(200);
        await ended(relay, "ordered:3");
        const sent = receiver.requests.map(({ headers }) => headers["webhook-id"]);
        expect(sent.filter((id) => String(id).startsWith("ordered:")).slice(-2)).toEqual(["ordered:2", "ordered:3"]);
        expect((await shown(relay, "/events/wide:1?limit=1", "key_wide")).status).toBe("delivered");
        expect((await shown(relay, "/events/wide:2?limit=1", "key_wide")).status).toBe("pending");
      }
      await relay.stop();

      const config = configOf(folder, stored.source);
      const checked = await runHere(["check", "--data", "--json", "--config", config], {
        cwd: folder,
        env: ENVIRONMENT,
      });
      expect(checked.code, checked.stdout).toBe(65);
      const { faults } = JSON.parse(checked.stdout) as { faults: { key: string; message: string }[] };
      expect(faults.map(({ message }) => message).join("\n")).toMatch(DAMAGED[name]);
      // Only what belongs to that one event.
      for (const { key } of faults)
        expect(key).toMatch(/^(?:event|delivery|due|eventid:key_1:damaged~1|filesystem$|unstorage$)/);

      // Two hours after it was made: what waited is due, and the suspension is over.
      const earlier = sentOf("wide:2").length;
      await using later = await stored.start(behind(Date.now() - facts.at - 2 * HOUR));
      const free = await later.call("GET", "/api-keys", { token: await later.token({ sub: "pest" }) });
      expect(free.status, free.text).toBe(200);
      if (edition !== FIRST) {
        await ended(later, "wide:2", "key_wide");
        expect((await shown(later, "/events/wide:2?limit=1", "key_wide")).status).toBe("delivered");
        expect(sentOf("wide:2").length - earlier).toBe(300);
      }
      // A driver's item that cannot be read may be read the next time: that ends after several turns of seconds.
      if (name !== "unstorage") {
        await until(async () => (await deliveriesOf(later, subs["waits"], "?status=pending")).length === 0);
        expect(await deliveriesOf(later, subs["waits"], "?status=failed")).toMatchObject([
          { reason: "record_damaged" },
        ]);
      }
      expect(sentOf("damaged:1")).toEqual([]);
    },
  );
});

describe.each(told.filter(({ name }) => name !== "redis"))("a backup of $words on $name()", ({ edition, name }) => {
  it("is restored from its backup, and goes on", async () => {
    const { folder, facts } = unpacked(edition, name);
    const data = join(folder, "restored");
    const config = configOf(folder, `sqlite({ dir: "${data}" })`);
    mkdirSync(data);
    const restored = await runHere(["restore", join(folder, "backup.ndjson.gz"), "--config", config], {
      cwd: folder,
      env: ENVIRONMENT,
    });
    expect(restored.code, restored.stderr).toBe(0);
    await using relay = await start(data, behind(Date.now() - facts.at - 1_000), sqlite({ dir: data }));
    const { "damaged:1": _, ...whole } = facts.events;
    expect(await eventsOf(relay)).toMatchObject(whole);
    if (edition !== FIRST) {
      const order = await shown(relay, `/webhooks/${facts.subs["ordered"]}/order`);
      expect(order).toMatchObject({ waiting: 2, held: [{ eventId: "ordered:1" }] });
      expect((await shown(relay, "/events/wide:2?limit=1", "key_wide")).status).toBe("pending");
    }
    // Each password costs a quarter of a second, whatever storage the backup is of.
    if (name === "sqlite") await login(relay, facts);
    const users = await relay.call("GET", "/auth/users", { token: await relay.token({ mfa: true }) });
    expect(users.json.data).toMatchObject([{ username: "alice", keys: ["*"], totp: true }]);
    await delivers(relay, facts, `${edition}-${name}-restored`);
    const one = await relay.call("POST", "/api-keys/key_1/events/fails:1/replay", { body: {} });
    expect([one.status, one.json.data], one.text).toEqual([202, { deliveries: 1 }]);
    await ended(relay, "fails:1");
    expect((await shown(relay, "/events/fails:1")).status).toBe("delivered");
  });
});

describe("what a newer edition has stored", () => {
  it("ends a start with 78, and stays as it is", async () => {
    const { folder } = unpacked("989c87d7", "sqlite");
    const database = new DatabaseSync(join(folder, "data/relay.db"));
    const schema = database.prepare("SELECT value FROM record WHERE key = 'meta:schema'");
    const { value } = schema.get() as { value: string };
    database.prepare("UPDATE record SET value = ? WHERE key = 'meta:schema'").run(String(Number(value) + 1));
    database.close();
    const config = configOf(folder, `sqlite({ dir: "${folder}/data" })`);
    const ran = await runHere(["start", "--config", config], { cwd: folder, env: ENVIRONMENT });
    expect(ran).toMatchObject({ code: 78, stderr: expect.stringContaining("written by a newer version (schema 3,") });
    const after = new DatabaseSync(join(folder, "data/relay.db"));
    expect(after.prepare("SELECT value FROM record WHERE key = 'meta:schema'").get()).toMatchObject({ value: "3" });
    after.close();
  });
});
