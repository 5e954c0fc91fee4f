// fromPostgres as an outbox, against real servers: what becomes of its rows.
import { expect, it } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import type { PostgresOptions } from "../../plugins/source/postgres/source.ts";
import { testClock, type TestClock } from "../support/clock.ts";
import { desk, paid } from "../support/intake.ts";
import { needs } from "../support/needs.ts";
import { documented, polls } from "../support/postgres.ts";
import { describeMessageSource } from "../support/message-laws.ts";
import { openSource } from "../support/message-plugin.ts";
import { until } from "../support/until.ts";
import { postgresUpstream, type PostgresUpstream } from "../support/upstreams/postgres.ts";

const info = { durability: "fsync" } as const;
const event = (over: Readonly<Record<string, unknown>> = {}): string => JSON.stringify(paid(over));

describeMessageSource({
  name: "PostgreSQL",
  missing: needs("postgres"),
  start: postgresUpstream,
  differences: () => ({
    firstId: (table) => new RegExp(`^${table}-1$`),
    cloudPrefix: "ce_",
    deadSays: /^a row cannot be moved to outbox\d+_dead: /,
    // Far sooner than the statement under way is given up.
    stopsWithinMs: 20_000,
  }),
  more: ownLaws,
});

function ownLaws(postgres: () => PostgresUpstream): void {
  const query = (sql: string, values?: readonly unknown[]) => postgres().server.query(sql, values);

  async function bench(over: Partial<PostgresOptions> & { readonly clock?: TestClock; readonly column?: string } = {}) {
    const { clock = systemClock(), column, ...options } = over;
    const table = options.table ?? (await postgres().newTable(column));
    // Only a NOTIFY wakes it.
    const plugin = fromPostgres({ url: postgres().server.url, table, pollMs: 3_600_000, ...options });
    const made = await openSource(plugin, { clock });
    const left = () => postgres().left(table);
    return {
      ...made,
      table,
      left,
      add: (...events: readonly (string | null)[]) =>
        query(`INSERT INTO ${table} (event) SELECT unnest($1::text[])${column ? `::${column}` : ""}`, [events]),
      dead: () => query(`SELECT * FROM ${table}_dead ORDER BY id`),
      done: () => until(async () => (await left()) === 0),
      [Symbol.asyncDispose]: () => made.source.stop(),
    };
  }
  async function started(over: Parameters<typeof bench>[0] = {}) {
    const made = await bench(over);
    await made.source.start(made.desk.intake.accept, info);
    return { ...made, told: made.desk.told };
  }

  it.each(["json", "jsonb", "text"])("empties a table of %s at a NOTIFY", async (column) => {
    await using made = await started({ column });
    await until(() => made.source.readiness?.() === undefined);
    await made.add(event({ data: { big: 1 } }).replace("1}", "12345678901234567890}"));
    await made.done();
    expect(made.told[0]?.body).toMatch(/"data":\{"big": ?12345678901234567890\}\}$/);
  });

  it("takes the insert of the documentation", async () => {
    await using made = await started({ column: "jsonb" });
    await query(documented("insert", made.table));
    await made.done();
    expect(made.told).toMatchObject([{ type: "order.paid", keyId: "key_1" }]);
  });

  it("reads a table at the start and by the poll where nobody notifies", async () => {
    await using made = await bench({ pollMs: 10 });
    await query(`DROP TRIGGER ${made.table}_notify ON ${made.table}`);
    await made.add(event());
    await made.source.start(made.desk.intake.accept, info);
    await made.done();
    await made.add(event());
    await made.done();
    expect(made.desk.told).toHaveLength(2);
  });

  it("keeps its rows where they are to be marked", async () => {
    await using made = await started({ done: "mark" });
    await made.add(event(), "no JSON");
    await made.done();
    const rows = await query(`SELECT * FROM ${made.table} WHERE done_at IS NOT NULL`);
    expect([rows.length, made.told.length, (await made.dead()).length]).toEqual([2, 1, 1]);
  });

  it.each(["delete", "mark"] as const)("shows how many rows wait while nothing can be stored (%s)", async (done) => {
    const made = await bench({ done });
    await made.add(event(), event(), event());
    const refuse = () => Promise.reject(new Problem("STORAGE_FULL", "full"));
    await made.source.start(refuse, info);
    await until(() => made.metrics.shown.get("relay_source_backlog postgres") === 3);
    await made.source.stop();
  });

  it("moves its bad rows to the dead table, with the reason, and no other", async () => {
    await using made = await started();
    await made.add(event(), "it's \\ no JSON", `[${event()},{}]`, null, event());
    await made.done();
    expect(made.told.map(({ id }) => id)).toEqual([`${made.table}-1`, `${made.table}-5`]);
    expect(await made.dead()).toMatchObject([
      { id: "2", event: "it's \\ no JSON", code: "INVALID_JSON" },
      { id: "3", code: "VALIDATION_FAILED", reason: expect.stringContaining("[1].type is missing") },
      { id: "4", event: null, code: "INVALID_JSON" },
    ]);
  });

  it("reads lists of events, and rows for map and keyId with their other columns", async () => {
    await using made = await started({ keyId: ({ headers }) => headers["tenant"] ?? "" });
    const text = event({ keyId: undefined });
    await query(`INSERT INTO ${made.table} (event, tenant) VALUES ($1, 'key_4')`, [`[${text},${text}]`]);
    await made.done();
    expect(made.told.map(({ id, keyId }) => [id, keyId])).toEqual([
      [`${made.table}-1:0`, "key_4"],
      [`${made.table}-1:1`, "key_4"],
    ]);
    await using mapped = await started({ map: ({ text }) => ({ type: "x", keyId: "k", dataText: text }) });
    await mapped.add("[2]");
    await mapped.done();
    expect(mapped.told).toMatchObject([{ type: "x", id: `${mapped.table}-1` }]);
  });

  it("shares a table with other nodes, and each event is stored once", async () => {
    const first = await bench();
    const second = await bench({ table: first.table });
    await first.add(...Array.from({ length: 3_000 }, (_, i) => event({ data: i })));
    const { intake, told } = desk();
    for (const { source } of [first, second]) await source.start(intake.accept, info);
    await first.done();
    await Promise.all([first.source.stop(), second.source.stop()]);
    expect(told).toHaveLength(3_000);
  });

  it("stores rows in the order of their ids, wherever they stand", async () => {
    await using made = await bench();
    await made.add(...Array.from({ length: 12 }, () => event()));
    // An update writes a row again, behind the others.
    await query(`UPDATE ${made.table} SET tenant = 'x' WHERE id < 4`);
    await made.source.start(made.desk.intake.accept, info);
    await made.done();
    expect(made.desk.told.map(({ id }) => id)).toEqual(Array.from({ length: 12 }, (_, i) => `${made.table}-${i + 1}`));
  });

  it("leaves all rows where they are when it stops before they are stored", async () => {
    const made = await bench();
    await made.add(event(), "no JSON", event());
    await made.source.start(() => Promise.reject(new Problem("STORAGE_FULL", "full")), info);
    await until(() => made.source.readiness?.() !== undefined);
    await made.source.stop();
    expect([await made.left(), (await made.dead()).length]).toEqual([3, 0]);
  });

  it("keeps no transaction open while nothing can be stored", async () => {
    const clock = testClock();
    await using made = await bench({ clock });
    let refusing = true;
    await made.add(event());
    await made.source.start((request) => {
      if (refusing) throw new Problem("STORAGE_FULL", "full");
      return made.desk.intake.accept(request);
    }, info);
    const open = async (): Promise<number> =>
      (await query("SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'")).length;
    await until(() => made.source.readiness?.() !== undefined);
    expect(await open()).toBe(1);
    await clock.advance(40_000);
    await until(async () => (await open()) === 0);
    refusing = false;
    await clock.advance(60_000);
    await made.done();
    expect(made.desk.told).toHaveLength(1);
  });

  it("names and counts a row that the dead table refuses once, however often it is read", async () => {
    await using made = await bench({ pollMs: 10 });
    await query(`ALTER TABLE ${made.table}_dead ADD CONSTRAINT narrow CHECK (id <> 2)`);
    await made.add("bad", "worse", event());
    await made.source.start(made.desk.intake.accept, info);
    await until(async () => (await made.left()) === 1);
    await made.add(event({ id: "behind" }));
    await until(async () => (await made.left()) === 1 && made.desk.told.length === 2);
    expect(await made.dead()).toMatchObject([{ id: "1" }]);
    const reads = await polls(postgres().server);
    await until(async () => (await polls(postgres().server)) > reads + 20);
    const said = (text: string) => made.log.lines.filter(({ message }) => message === text).length;
    expect([said("a row cannot be set aside"), said("a message is set aside")]).toEqual([1, 2]);
    expect(made.metrics.counted.get("source_dead_lettered postgres")).toBe(2);
  });

  it("reads nothing without a dead table that the config names, and says so", async () => {
    await using made = await bench({ dead: "graveyard" });
    await made.source.start(made.desk.intake.accept, info);
    await until(() => made.source.readiness?.() !== undefined);
    expect(made.source.readiness?.()).toBe("there is no table graveyard");
  });
}
