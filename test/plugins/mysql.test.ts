// fromMysql against real servers of MariaDB: what becomes of rows. What it shares with fromPostgres is proven there as well.
import { expect, it } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { fromMysql } from "../../plugins/source/mysql.ts";
import type { MysqlOptions } from "../../plugins/source/mysql/source.ts";
import { paid } from "../support/intake.ts";
import { testFolder } from "../support/folder.ts";
import { expectNothingLost } from "../support/ledger.ts";
import { needs } from "../support/needs.ts";
import { describeMessageSource } from "../support/message-laws.ts";
import { openSource } from "../support/message-plugin.ts";
import { until } from "../support/until.ts";
import { mysqlUpstream, type MysqlUpstream } from "../support/upstreams/mysql.ts";

const info = { durability: "fsync" } as const;
const event = (over: Readonly<Record<string, unknown>> = {}): string => JSON.stringify(paid(over));

describeMessageSource({
  name: "MariaDB",
  missing: needs("mariadb"),
  start: mysqlUpstream,
  differences: () => ({
    firstId: (table) => new RegExp(`^${table}-1$`),
    cloudPrefix: "ce_",
    deadSays: /^a row cannot be moved to outbox\d+_dead: /,
    stopsWithinMs: 20_000,
  }),
  more: ownLaws,
});

function ownLaws(mysql: () => MysqlUpstream): void {
  const query = (sql: string, values?: readonly unknown[]) => mysql().server.query(sql, values);

  async function started(over: Partial<MysqlOptions> = {}) {
    const plugin = fromMysql({ url: mysql().server.url, pollMs: 20, ...over });
    const made = await openSource(plugin, { clock: systemClock() });
    await made.source.start(made.desk.intake.accept, info);
    return { ...made, told: made.desk.told, [Symbol.asyncDispose]: () => made.source.stop() };
  }

  it.each([
    ["char(36)", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "6f9619ff-8b86-d011-b42d-00c04fc964ff"],
    ["uuid", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "6f9619ff-8b86-d011-b42d-00c04fc964ff"],
    ["binary(16)", Buffer.from("006f5c27ff8b86d011b42d00c04fc964", "hex"), "006f5c27ff8b86d011b42d00c04fc964"],
    ["varchar(40) COLLATE utf8mb4_bin", "ö'\\`🎉", expect.stringMatching(/^h-[0-9a-f]{40}$/)],
    ["bigint unsigned", "18446744073709551615", "18446744073709551615"],
  ])("reads and empties a table with ids of %s", async (type, id, shown) => {
    const table = `ids_${type.replaceAll(/\W/g, "")}`;
    await query(`CREATE TABLE ${table} (id ${type} PRIMARY KEY, event longtext CHARACTER SET utf8mb4)`);
    await query(`INSERT INTO ${table} VALUES (?, ?)`, [id, event({ data: "ö'\\`🎉" })]);
    await using made = await started({ table });
    await until(async () => (await query(`SELECT 1 FROM ${table}`)).length === 0);
    const wish: unknown = typeof shown === "string" ? `${table}-${shown}` : shown;
    expect(made.told.map((one) => one.id)).toEqual([wish]);
    expect(made.told[0]?.body).toContain("ö'\\\\`🎉");
  });

  it("reads columns of its own names, in the order of their time, and marks the rows", async () => {
    await query(`CREATE TABLE \`Shop orders\` (\`Id\` char(36) PRIMARY KEY, who varchar(64), what varchar(64), body longblob,
      at datetime(6), sent tinyint(1), KEY (at))`);
    const columns = { id: "Id", key: "who", type: "what", payload: "body", created: "at", done: "sent" };
    for (const n of [3, 1, 2])
      await query("INSERT INTO `Shop orders` VALUES (uuid(), 'key_1', 'order.paid', ?, ?, NULL)", [
        Buffer.from(`{"n":${n}.0}`),
        `2026-11-26 10:00:0${n}.5`,
      ]);
    await using made = await started({ table: "`Shop orders`", columns, done: "mark" });
    await until(async () => (await query("SELECT 1 FROM `Shop orders` WHERE sent = 1")).length === 3);
    expect(made.told.map(({ body }) => JSON.parse(body) as object)).toMatchObject(
      [1, 2, 3].map((n) => ({ type: "order.paid", data: { n }, createdAt: `2026-11-26T10:00:0${n}.500Z` })),
    );
    expect(made.told[0]?.body).toContain('{"n":1.0}');
  });

  it("holds a bad row that has no dead table, says why, and passes it when it is mended", async () => {
    await query("CREATE TABLE held (id bigint AUTO_INCREMENT PRIMARY KEY, event longtext)");
    await query("INSERT INTO held (event) VALUES (?), ('{'), (?)", [event(), event()]);
    await using made = await started({ table: "held" });
    await until(async () => (await query("SELECT 1 FROM held")).length === 1 && made.told.length === 2);
    await until(() => made.source.readiness?.() !== undefined);
    expect(made.source.readiness?.()).toMatch(/^row 2 of held is held: INVALID_JSON .*make the table held_dead/);
    await query("UPDATE held SET event = ? WHERE id = 2", [event()]);
    await until(async () => (await query("SELECT 1 FROM held")).length === 0);
    await until(() => made.source.readiness?.() === undefined);
    expect(made.told.map(({ id }) => id)).toEqual(["held-1", "held-3", "held-2"]);
    expect(made.metrics.counted.get("source_dead_lettered mysql")).toBe(1);
  });

  it("keeps a whole bad row as JSON in the dead table", async () => {
    await query(`CREATE TABLE whole (id binary(2) PRIMARY KEY, who text, payload longtext);
      CREATE TABLE whole_dead (id binary(2), event longtext, code text, reason text)`);
    await query("INSERT INTO whole VALUES (x'00ff', 'it''s', '{')");
    await using made = await started({ table: "whole", columns: { payload: "payload", key: "who" }, type: "a" });
    await until(async () => (await query("SELECT 1 FROM whole")).length === 0);
    const [dead] = await query("SELECT HEX(id) AS id, event, code FROM whole_dead");
    expect(dead).toMatchObject({ id: "00FF", code: "VALIDATION_FAILED" });
    expect(JSON.parse(dead?.["event"] as string)).toEqual({ id: "00FF", who: "it's", payload: "{" });
    expect(made.told).toEqual([]);
  });

  it("shares a table with other nodes, and each event is stored once", async () => {
    const table = await mysql().make();
    await mysql().send(
      table,
      Array.from({ length: 5_000 }, (_, i) => event({ data: i })),
    );
    await using one = await started({ table });
    const other = await openSource(fromMysql({ url: mysql().server.url, table, pollMs: 20 }), { clock: systemClock() });
    await other.source.start(one.desk.intake.accept, info);
    await until(async () => (await mysql().left(table)) === 0);
    await other.source.stop();
    expect(new Set(one.told.map(({ id }) => id)).size).toBe(5_000);
    expect(one.told).toHaveLength(5_000);
  });

  it("lets others insert while nothing can be stored, and shows what waits", async () => {
    const table = await mysql().make();
    const insert = () => query(`INSERT INTO ${table} (event) VALUES (?)`, [event()]);
    await insert();
    const plugin = fromMysql({ url: mysql().server.url, table, pollMs: 20 });
    const made = await openSource(plugin, { clock: systemClock() });
    await made.source.start(() => Promise.reject(new Problem("STORAGE_FULL", "full")), info);
    await until(() => made.source.readiness?.() !== undefined);
    await query("SET innodb_lock_wait_timeout = 1");
    await insert();
    await insert();
    await until(() => (made.metrics.shown.get("relay_source_backlog mysql") ?? 0) >= 1);
    await made.source.stop();
    expect(await mysql().left(table)).toBe(3);
  });

  it.each([
    ["(id double PRIMARY KEY, event text)", /needs a column id with .*: it is double/],
    ["(id bigint PRIMARY KEY, evnt text)", /needs a column event with JSON or text or bytes: there is none; .*columns/],
    ["(id bigint PRIMARY KEY, event text) ENGINE=MyISAM", /is of MyISAM, which has no transactions: it needs InnoDB/],
    ["(id bigint, event text)", undefined],
  ])("says of a table %s what does not fit", async (columns, fault) => {
    await query(`CREATE OR REPLACE TABLE misfit ${columns}`);
    await using made = await started({ table: "misfit" });
    const { inspect } = fromMysql({ url: mysql().server.url, table: "misfit" });
    const found = await inspect?.({ clock: systemClock(), configDir: ".", secret: () => mysql().server.url });
    if (fault === undefined) {
      expect(found).toEqual([
        { isBad: false, message: "there is no table misfit_dead: rows without a valid event are held" },
        { isBad: false, message: "no index of misfit begins with id: each reading sorts the whole table" },
      ]);
      return;
    }
    await until(() => made.source.readiness?.() !== undefined);
    expect(made.source.readiness?.()).toMatch(fault);
    expect(found).toContainEqual({ isBad: true, message: expect.stringMatching(fault) as string });
  });

  it("is stored once and whole by a relay that is killed again and again", { timeout: 240_000 }, async () => {
    const table = await mysql().make();
    const total = 9_000;
    for (let at = 0; at < total; at += 1_000)
      await mysql().send(
        table,
        Array.from({ length: 1_000 }, (_, i) => event({ data: at + i })),
      );
    await expectNothingLost({
      folder: testFolder(),
      source: `fromMysql({ url: ${JSON.stringify(mysql().server.url)}, table: "${table}", pollMs: 50 })`,
      imports: ["fromMysql"],
      total,
      kills: 3,
      left: () => mysql().left(table),
    });
  });
}
