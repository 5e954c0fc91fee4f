// Who may do what: an owner makes the schema once, and a role with no more than the documented rights runs the relay.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { loadConfig } from "../../../config/load.ts";
import { StartError } from "../../../core/model/errors.ts";
import { durabilityOf } from "../../../plugins/storage/postgres/probe.ts";
import { urlsOf } from "../../../plugins/storage/postgres/options.ts";
import { freePort } from "../../../tools/free-port.ts";
import { due, enqueue } from "../../conformance/queue.ts";
import { testFolder } from "../../support/folder.ts";
import { TEST_ENV } from "../../support/relay.ts";
import { describePostgres, eachPostgresBench, sharedPostgres } from "../../support/postgres-bench.ts";

/** The statements of docs/postgres.md. */
function documented(what: string): string {
  const page = readFileSync(new URL("../../../docs/postgres.md", import.meta.url), "utf8");
  const [, sql] = new RegExp(`^\`\`\`sql ${what}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page) ?? [];
  if (sql === undefined) throw new Error(`docs/postgres.md has no sql ${what}`);
  return sql;
}

describePostgres("postgres() at its start", () => {
  const server = sharedPostgres();
  const bench = eachPostgresBench();
  const as = (role: string, host = `127.0.0.1:${server().port}`): string => `postgres://${role}@${host}/postgres`;
  const refusal = async (opening: Promise<unknown>): Promise<StartError> => {
    const error: unknown = await opening.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(StartError);
    return error as StartError;
  };

  it("needs only the documented rights, once the owner has made the schema", async () => {
    await server().query(documented("roles"));
    const owner = await bench().open({ url: as("relay_owner") });
    expect(await owner.status()).toMatchObject({ vacuums: true });
    await owner.dispose();
    await server().query(documented("rights"));
    const storage = await bench().open({ url: as("relay_run") });
    await enqueue(storage, due("a", 1, Date.now()), due("b", 2, Date.now()));
    const lease = await claimOneOf(storage);
    expect(await storage.queue.extend(lease)).toBe(true);
    await storage.queue.pause("sub_a", 1_000);
    await storage.queue.pause("sub_a", 0);
    await storage.queue.release(lease);
    await storage.queue.cancel("sub_a");
    expect(await storage.queue.sweep()).toBe(1);
    await storage.commit([
      { op: "put", key: "subscription:k:s", value: "x" },
      { op: "check", key: "meta:none", if: null },
    ]);
    const take = { key: "k", sustained: { limit: 1, windowMs: 60_000 }, burst: { limit: 1, windowMs: 60_000 } };
    expect((await storage.counters.take([take]))[0]?.code).toBeUndefined();
    expect((await storage.counters.take([take]))[0]?.code).toBe("RATE_LIMIT_EXCEEDED");
    expect(await storage.status()).toMatchObject({ vacuums: false });
    expect(
      bench()
        .log.lines.map(({ message }) => message)
        .join(),
    ).toMatch(/cannot vacuum the tables/);
  });

  it("is named in a config as the page shows it", async () => {
    const page = readFileSync(new URL("../../../docs/postgres.md", import.meta.url), "utf8");
    const examples = [...page.matchAll(/^```ts postgres\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);
    expect(examples).toHaveLength(2);
    for (const [i, code] of examples.entries()) {
      const cwd = join(testFolder(), String(i));
      mkdirSync(cwd);
      writeFileSync(join(cwd, "relay.config.ts"), code);
      const env = { ...TEST_ENV, PG_URL: server().url };
      const { plan } = await loadConfig({ flags: { config: "relay.config.ts" }, env, cwd });
      expect(plan.storage).toMatchObject({ name: "postgres", shared: true, problems: [] });
    }
  });

  it("says who must make the schema, where this role may not", async () => {
    await server().query("create role nobody_yet login");
    const { exitCode, message } = await refusal(bench().open({ url: as("nobody_yet"), schema: "another" }));
    expect(exitCode).toBe(78);
    expect(message).toMatch(/may not make the schema another .*permission denied.*let its owner start a relay once/);
  });

  it("refuses a schema of a newer relay, and leaves it as it is", async () => {
    await (await bench().open({ url: as("relay"), schema: "newer" })).dispose();
    await server().query("update newer.meta set value = '99'");
    const { message } = await refusal(bench().open({ url: as("relay"), schema: "newer" }));
    expect(message).toMatch(/made by a newer relay \(version 99/);
  });

  it("is made once by nodes that start together", async () => {
    const all = await Promise.all([1, 2, 3].map(() => bench().open({ url: as("relay"), schema: "together" })));
    await all[0]?.commit([{ op: "put", key: "meta:a", value: "1" }]);
    expect(await all[2]?.getItem("meta:a")).toBe("1");
  });

  it("tries the hosts of the url in turn", async () => {
    const closed = await freePort();
    const hosts = `127.0.0.1:${closed},127.0.0.1:${server().port}`;
    const storage = await bench().open({ url: as("relay", hosts), schema: "hosts" });
    await storage.commit([{ op: "put", key: "meta:a", value: "1" }]);
    expect(await storage.getItem("meta:a")).toBe("1");
  });

  it("reads each host of a url, and refuses what is none", () => {
    expect(urlsOf("postgres://u:p%40@a,b:5433/db?sslmode=require")).toEqual([
      "postgres://u:p%40@a/db?sslmode=require",
      "postgres://u:p%40@b:5433/db?sslmode=require",
    ]);
    expect(urlsOf("mysql://a/b")).toBeUndefined();
    expect(urlsOf("postgres://a:port/b")).toBeUndefined();
  });

  it("says of a commit what the settings make it worth", () => {
    const row = (fsync: string, pages: string, commit: string, standbys: string) =>
      durabilityOf(["150000", "15", "UTF8", fsync, pages, commit, standbys]);
    expect(row("on", "on", "on", "")).toBe("fsync");
    expect(row("on", "on", "local", "s1")).toBe("fsync");
    expect(row("on", "on", "remote_write", "s1")).toBe("fsync");
    expect(row("on", "on", "on", "s1")).toBe("replicated");
    expect(row("on", "on", "remote_apply", "s1")).toBe("replicated");
    for (const off of [row("off", "on", "on", "s1"), row("on", "off", "on", ""), row("on", "on", "off", "s1")])
      expect(off).toBe("volatile");
  });
});

async function claimOneOf(storage: Parameters<typeof enqueue>[0]) {
  const [lease] = await storage.queue.claim({ limit: 1, perSubscription: 1, busy: new Map() });
  if (lease === undefined) throw new Error("nothing was claimed");
  return lease;
}
