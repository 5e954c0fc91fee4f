// fromPostgres over tables as others have made them: ids, names, columns, views, and what does not fit.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import type { PostgresOptions } from "../../plugins/source/postgres/source.ts";
import { testFolder } from "../support/folder.ts";
import { paid } from "../support/intake.ts";
import { expectNothingLost } from "../support/ledger.ts";
import { openSource } from "../support/message-plugin.ts";
import { needs } from "../support/needs.ts";
import { outboxSql } from "../support/outbox.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { shelf } from "../support/shelf.ts";
import { until } from "../support/until.ts";

const missing = needs("postgres");
let server: PostgresServer;
beforeAll(async () => {
  if (missing === undefined) server = await startPostgres();
});
afterAll(() => server?.[Symbol.asyncDispose]());

const info = { durability: "fsync" } as const;
const event = (over: Readonly<Record<string, unknown>> = {}): string => JSON.stringify(paid(over));
const rows = (sql: string) => server.query(sql);
const isEmpty = async (table: string): Promise<boolean> => (await rows(`SELECT FROM ${table} LIMIT 1`)).length === 0;

async function started(over: Partial<PostgresOptions>, storage = shelf()) {
  const made = await openSource(fromPostgres({ url: server.url, pollMs: 20, ...over }), {
    clock: systemClock(),
    storage,
  });
  await made.source.start(made.desk.intake.accept, info);
  return { ...made, told: made.desk.told, [Symbol.asyncDispose]: () => made.source.stop() };
}
const inspected = (over: Partial<PostgresOptions>) =>
  fromPostgres({ url: server.url, ...over }).inspect?.({
    ...{ clock: systemClock(), configDir: ".", secret: () => server.url },
  });

describe.skipIf(missing !== undefined)(`an outbox that is there already (${missing ?? "a real server"})`, () => {
  it.each([
    ["uuid", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "6f9619ff-8b86-d011-b42d-00c04fc964ff"],
    ["text", "it's \\ ö", expect.stringMatching(/^h-[0-9a-f]{40}$/)],
    ["varchar(40)", "order-17", "order-17"],
    ["char(12)", "order-17", expect.stringMatching(/^h-[0-9a-f]{40}$/)],
    ["bytea", "\\x00ff27", "00ff27"],
    ["int", "17", "17"],
  ])("may have ids of %s", async (type, id, shown) => {
    const table = `ids_${type.replaceAll(/\W/g, "")}`;
    await rows(`CREATE TABLE ${table} (id ${type} PRIMARY KEY, event bytea)`);
    await server.query(`INSERT INTO ${table} VALUES ($1, $2)`, [id, Buffer.from(event())]);
    await using made = await started({ table });
    await until(() => isEmpty(table));
    expect(made.told.map((one) => one.id)).toEqual([typeof shown === "string" ? `${table}-${shown}` : shown]);
  });

  it("may have names that stand in quotes, and columns of its own, which are read in the order of their time", async () => {
    await rows(outboxSql("own"));
    const columns = { id: "MessageId", key: "Tenant", type: "EventName", payload: "Body", created: "OccurredAt", done: "SentAt" }; // prettier-ignore
    await rows(`INSERT INTO "Shop"."OutboxMessages" ("Tenant", "EventName", "Body", "OccurredAt")
      SELECT 'key_1', 'order.paid', json_build_object('n', n)::jsonb, '2026-11-26 12:00:00+02'::timestamptz + n * interval '1 second'
      FROM unnest(ARRAY[5, 3, 1, 2, 4]) AS n`);
    await using made = await started({ table: '"Shop"."OutboxMessages"', columns, done: "mark" });
    await until(async () => (await rows(`SELECT FROM "Shop"."OutboxMessages" WHERE "SentAt" IS NULL`)).length === 0);
    expect(made.told.map(({ body }) => JSON.parse(body) as object)).toMatchObject(
      [1, 2, 3, 4, 5].map((n) => ({ keyId: "key_1", data: { n }, createdAt: `2026-11-26T10:00:0${n}.000Z` })),
    );
    expect(await inspected({ table: '"Shop"."OutboxMessages"', columns, done: "mark" })).toMatchObject([
      { isBad: false, message: "there is no table Shop.OutboxMessages_dead: rows without a valid event are held" },
    ]);
  });

  it("may be Debezium's table", async () => {
    await rows(outboxSql("debezium", "debezium"));
    await rows(outboxSql("debezium-insert", "debezium"));
    await rows("INSERT INTO debezium VALUES (gen_random_uuid(), 'order', '18', 'OrderGone', NULL)");
    const keyId: PostgresOptions["keyId"] = ({ headers }) => `${headers["aggregatetype"]}-${headers["aggregateid"]}`;
    await using made = await started({ table: "debezium", columns: "debezium", keyId });
    await until(() => isEmpty("debezium"));
    const bodies = made.told.map(({ body }) => JSON.parse(body) as { readonly type: string });
    expect(bodies.toSorted((a, b) => (a.type < b.type ? -1 : 1))).toMatchObject([
      { keyId: "order-18", type: "OrderGone", data: null },
      { keyId: "order-17", type: "OrderPaid", data: { order: 17 } },
    ]);
  });

  it("may be a view, which is emptied, or marked through a flag, and not one that lets nothing through", async () => {
    await rows(`CREATE TABLE base (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), note text, what text, done bool);
      CREATE VIEW emptied AS SELECT id, what AS event FROM base WHERE note = 'a';
      CREATE VIEW marked AS SELECT id, what AS event, done FROM base WHERE note = 'b';
      CREATE VIEW counted AS SELECT id, max(what) AS event FROM base GROUP BY id`);
    for (const note of ["a", "a", "b", "c"])
      await server.query("INSERT INTO base (note, what) VALUES ($1, $2)", [note, event()]);
    {
      await using one = await started({ table: "emptied" });
      await using other = await started({ table: "marked", done: "mark", columns: { done: "done" } });
      await until(
        async () =>
          (await rows("SELECT FROM base WHERE done OR note = 'c'")).length === 2 && (await isEmpty("emptied")),
      );
      expect([one.told.length, other.told.length, (await rows("SELECT FROM base")).length]).toEqual([2, 1, 2]);
    }
    await using none = await started({ table: "counted" });
    await until(() => none.source.readiness?.() !== undefined);
    expect(none.source.readiness?.()).toContain("counted is a view that lets no DELETE through");
  });

  it("may be in parts, of which no other row goes than those that were read", async () => {
    await rows(`CREATE TABLE parts (id bigint, event text) PARTITION BY LIST (id);
      CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1, 2); CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (3, 4)`);
    for (const id of [1, 2, 3, 4]) await server.query("INSERT INTO parts VALUES ($1, $2)", [id, event()]);
    await using made = await started({ table: "parts", maxInFlight: 1 });
    await until(() => isEmpty("parts"));
    expect(made.told.map(({ id }) => id)).toEqual([1, 2, 3, 4].map((id) => `parts-${id}`));
  });

  it("holds its bad rows without a dead table, says why, and passes each when it is mended", async () => {
    await rows("CREATE TABLE held (id uuid PRIMARY KEY, event text, created_at timestamptz DEFAULT clock_timestamp())");
    const add = (text: string) => server.query("INSERT INTO held VALUES (gen_random_uuid(), $1)", [text]);
    // More than one page of them, and good ones behind.
    await rows("INSERT INTO held SELECT gen_random_uuid(), '{' FROM generate_series(1, 1200)");
    await add(event({ data: 1 }));
    await using made = await started({ table: "held" });
    await until(() => made.told.length === 1);
    await until(() =>
      /^row [0-9a-f-]{36} of held is held: INVALID_JSON .* \(and 1199 more\)$/.test(made.source.readiness?.() ?? ""),
    );
    await add(event({ data: 2 }));
    await until(() => made.told.length === 2);
    await server.query("UPDATE held SET event = $1", [event({ data: 3 })]);
    await until(() => isEmpty("held"));
    await until(() => made.source.readiness?.() === undefined);
    expect(made.told).toHaveLength(1202);
    expect(made.metrics.counted.get("source_dead_lettered postgres")).toBe(1200);
    expect(made.log.lines.filter(({ message }) => message === "a row cannot be set aside")).toHaveLength(1);
  });

  it("keeps a whole bad row as JSON in the dead table that is named", async () => {
    await rows(`CREATE TABLE whole (id uuid PRIMARY KEY, who text, payload text); CREATE SCHEMA "Old";
      CREATE TABLE "Old"."Bad rows" (id uuid, event text, code text, reason text)`);
    await rows(`INSERT INTO whole VALUES ('6f9619ff-8b86-d011-b42d-00c04fc964ff', 'it''s', '{')`);
    const columns = { payload: "payload", key: "who" };
    await using made = await started({ table: "public.whole", columns, type: "a", dead: '"Old"."Bad rows"' });
    await until(() => isEmpty("whole"));
    const [dead] = await rows('SELECT * FROM "Old"."Bad rows"');
    expect(dead).toMatchObject({ id: "6f9619ff-8b86-d011-b42d-00c04fc964ff", code: "VALIDATION_FAILED" });
    expect(JSON.parse(dead?.["event"] as string)).toEqual({ id: dead?.["id"], who: "it's", payload: "{" });
    expect(made.told).toEqual([]);
  });

  it.each([["uuid"], ["text"]])("is read by a cursor over ids of %s, once over several starts", async (type) => {
    const table = `feed_${type}`;
    await rows(`CREATE TABLE ${table} (id ${type} PRIMARY KEY DEFAULT gen_random_uuid(), event text,
      tx xid8 NOT NULL DEFAULT pg_current_xact_id()); CREATE VIEW ${table}_view AS SELECT * FROM ${table}`);
    const storage = shelf();
    const told: (string | undefined)[] = [];
    for (let round = 1; round <= 3; round++) {
      await rows(`INSERT INTO ${table} (event) SELECT '${event()}' FROM generate_series(1, 1500)`);
      await using made = await started({ table: `${table}_view`, cursor: true }, storage);
      await until(() => made.told.length >= 1_500);
      told.push(...made.told.map(({ id }) => id));
      await made.source.stop();
      expect(made.metrics.counted.has("source_redelivered postgres")).toBe(false);
    }
    expect([told.length, new Set(told).size]).toEqual([4_500, 4_500]);
  });

  it("is stored once and whole by a relay that is killed again and again", { timeout: 240_000 }, async () => {
    await rows("CREATE TABLE killed (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), who text, kind text, body jsonb)");
    const total = 9_000;
    await rows(
      `INSERT INTO killed (who, kind, body) SELECT 'key_1', 'order.paid', to_jsonb(n) FROM generate_series(0, ${total - 1}) AS n`,
    );
    await expectNothingLost({
      folder: testFolder(),
      source: `fromPostgres({ url: ${JSON.stringify(server.url)}, table: "killed", pollMs: 50,
        columns: { key: "who", type: "kind", payload: "body" } })`,
      imports: ["fromPostgres"],
      total,
      kills: 3,
      left: async () => Number((await rows("SELECT count(*) AS n FROM killed"))[0]?.["n"]),
    });
  });

  it.each<[string, string, Partial<PostgresOptions>, RegExp]>([
    [
      "an id that is no such",
      "(id float8, event text)",
      {},
      /needs a column id with a whole number or .*: it is float8$/,
    ],
    [
      "no column of that name",
      "(id int, evt text)",
      {},
      /needs a column event with JSON or text or bytes: there is none; .*columns: \{ event/,
    ],
    [
      "a mark of another type",
      "(id int, event text, done_at int)",
      { done: "mark" },
      /needs a column done_at with a time or true and false: it is int4/,
    ],
    ["no transaction", "(id int, event text)", { cursor: true }, /needs a column tx with xid8: there is none/],
    [
      "no time",
      "(id int, event text)",
      { columns: { created: "at" } },
      /needs a column at with a time: there is none$/,
    ],
  ])("says of a table with %s what does not fit, before the start and at it", async (_, columns, options, fault) => {
    await rows(`DROP TABLE IF EXISTS misfit; CREATE TABLE misfit ${columns}`);
    expect(await inspected({ table: "misfit", ...options })).toContainEqual({
      ...{ isBad: true, message: expect.stringMatching(fault) as string },
    });
    await using made = await started({ table: "misfit", ...options });
    await until(() => made.source.readiness?.() !== undefined);
    expect(made.source.readiness?.()).toMatch(fault);
  });

  it("says what its user may not do, which columns the dead table lacks, and which index would help", async () => {
    await rows(`CREATE TABLE poor (id uuid, event text); CREATE TABLE poor_dead (id uuid, event text);
      CREATE ROLE guest LOGIN; GRANT SELECT ON poor TO guest`);
    const url = server.url.replace("relay@", "guest@");
    const found = await fromPostgres({ url, table: "poor" }).inspect?.({
      ...{ clock: systemClock(), configDir: ".", secret: () => url },
    });
    expect(found?.map(({ isBad, message }) => `${isBad ? "BAD " : ""}${message}`)).toEqual([
      "BAD this user may not UPDATE in poor",
      "BAD this user may not DELETE in poor",
      "BAD poor_dead needs columns code, reason",
      "no column says when a row was made: uuids that do not grow come in no order (columns: { created })",
      "no index of poor begins with id: each reading sorts the whole table",
    ]);
    expect(await inspected({ table: "nowhere" })).toEqual([{ isBad: true, message: "there is no table nowhere" }]);
  });
});
