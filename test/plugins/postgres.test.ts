// fromPostgres as an outbox, against real servers: what becomes of its rows.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Accept } from "../../core/ports/source.ts";
import { Problem } from "../../core/model/problem.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import type { PostgresOptions } from "../../plugins/source/postgres/source.ts";
import { testClock, type TestClock } from "../support/clock.ts";
import { context } from "../support/context.ts";
import { testFolder } from "../support/folder.ts";
import { desk, paid } from "../support/intake.ts";
import { expectNothingLost } from "../support/ledger.ts";
import { needs } from "../support/needs.ts";
import { documented, startPostgres, type PostgresServer } from "../support/postgres.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { describeMessageSource } from "../support/message-laws.ts";
import { stopWhileSilent } from "../support/message-plugin.ts";
import { describePolledSource } from "../support/polled-source.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { until } from "../support/until.ts";

const missing = needs("postgres");
let server: PostgresServer;
beforeAll(async () => {
  if (missing === undefined) server = await startPostgres();
});
afterAll(() => server?.[Symbol.asyncDispose]());

let tables = 0;
const info = { durability: "fsync" } as const;
const event = (over: Readonly<Record<string, unknown>> = {}): string => JSON.stringify(paid(over));

/** An outbox as the documentation makes it. */
async function outbox(type = "text", on: PostgresServer = server): Promise<string> {
  const table = `outbox${++tables}`;
  await on.query(documented("outbox", table) + documented("mark", table));
  // Messages of all kinds, valid or not.
  await on.query(`ALTER TABLE ${table} ALTER event DROP NOT NULL, ALTER event TYPE ${type}, ADD tenant text`);
  return table;
}

async function bench(over: Partial<PostgresOptions> & { readonly clock?: TestClock; readonly column?: string } = {}) {
  const { clock, column, ...options } = over;
  const table = options.table ?? (await outbox(column));
  const [log, metrics] = [quietLog(), quietMetrics()];
  const ctx = context({ clock: clock ?? systemClock(), log, metrics, secret: () => server.url });
  // Only a NOTIFY wakes it.
  const source = await fromPostgres({ url: server.url, table, pollMs: 3_600_000, ...options }).setup(ctx);
  const left = async (): Promise<number> => {
    const [row] = await server.query(`SELECT count(*) AS n FROM ${table} WHERE done_at IS NULL`);
    return Number(row?.["n"]);
  };
  return {
    table,
    source,
    log,
    metrics,
    left,
    add: (...events: readonly (string | null)[]) =>
      server.query(`INSERT INTO ${table} (event) SELECT unnest($1::text[])${column ? `::${column}` : ""}`, [events]),
    dead: () => server.query(`SELECT * FROM ${table}_dead ORDER BY id`),
    done: () => until(async () => (await left()) === 0),
    [Symbol.asyncDispose]: () => source.stop(),
  };
}

async function started(over: Parameters<typeof bench>[0] = {}) {
  const made = await bench(over);
  const { intake, told } = desk();
  await made.source.start(intake.accept, info);
  return { ...made, told };
}

describe.skipIf(missing !== undefined)("fromPostgres keeps the law of a source:", () => {
  describePolledSource(async (clock) => {
    const made = await bench({ clock, pollMs: 10 });
    return {
      source: made.source,
      add: made.add,
      async learned() {
        if (made.source.readiness?.() !== undefined) return "later";
        // A row is moved to the dead ones in one step: whether it has left its table is asked first.
        if ((await made.left()) > 0) return undefined;
        return (await made.dead()).length > 0 ? "refused" : "acknowledged";
      },
      resumed: () => made.source.readiness?.() === undefined,
    };
  });
});

describe.skipIf(missing !== undefined)("fromPostgres keeps the law of a source of messages:", () => {
  describeMessageSource({
    make: () => outbox(),
    read: (table) => fromPostgres({ url: server.url, table, pollMs: 100, maxInFlight: 1 }),
    send: (table, payload) => server.query(`INSERT INTO ${table} (event) VALUES ($1)`, [payload]),
  });
});

describe.skipIf(missing !== undefined)("an outbox", () => {
  it.each(["json", "jsonb", "text"])(
    "of %s is emptied at a NOTIFY, and each event has the id of its row",
    async (column) => {
      await using made = await started({ column });
      await until(() => made.source.readiness?.() === undefined);
      await made.add(event({ data: { big: 1 } }).replace("1}", "12345678901234567890}"), event({ id: "mine" }));
      await made.done();
      expect(made.told.map(({ id }) => id)).toEqual([`${made.table}-1`, "mine"]);
      expect(made.told[0]?.body).toMatch(/"data":\{"big": ?12345678901234567890\}\}$/);
    },
  );

  it("takes the insert of the documentation", async () => {
    await using made = await started({ column: "jsonb" });
    await server.query(documented("insert", made.table));
    await made.done();
    expect(made.told).toMatchObject([{ type: "order.paid", keyId: "key_1" }]);
  });

  it("is read at the start and by the poll where nobody notifies", async () => {
    const made = await bench({ pollMs: 10 });
    await server.query(`DROP TRIGGER ${made.table}_notify ON ${made.table}`);
    await made.add(event());
    const { intake, told } = desk();
    await using _ = made;
    await made.source.start(intake.accept, info);
    await made.done();
    await made.add(event());
    await made.done();
    expect(told).toHaveLength(2);
  });

  it("keeps its rows where they are to be marked", async () => {
    await using made = await started({ done: "mark" });
    await made.add(event(), "no JSON");
    await made.done();
    const rows = await server.query(`SELECT * FROM ${made.table} WHERE done_at IS NOT NULL`);
    expect([rows.length, made.told.length, (await made.dead()).length]).toEqual([2, 1, 1]);
  });

  it("loses its bad rows to the dead table, with the reason, and no other", async () => {
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

  it("may hold batches, CloudEvents in both modes, and rows for map", async () => {
    const cloud = { specversion: "1.0", id: "ce", source: "/", type: "a.b", data: 1, relaykeyid: "key_1" };
    await using made = await started();
    await made.add(`[${event()},${event()}]`, JSON.stringify(cloud));
    await made.done();
    expect(made.told.map(({ id }) => id)).toEqual([
      `${made.table}-1:0`,
      `${made.table}-1:1`,
      "ce:df7e940f72aa93cbcb6d",
    ]);
    const table = await outbox();
    await server.query(
      `ALTER TABLE ${table} ADD ce_specversion text, ADD ce_id text, ADD ce_source text, ADD ce_type text`,
    );
    await using binary = await started({ table, keyId: ({ headers }) => headers["tenant"] ?? "" });
    await server.query(`INSERT INTO ${table} (event, tenant, ce_specversion, ce_id, ce_source, ce_type)
      VALUES ('[1]', 'key_4', '1.0', 'bin', '/', 'a.c')`);
    await binary.done();
    expect(binary.told).toMatchObject([{ id: "bin:df7e940f72aa93cbcb6d", type: "a.c", keyId: "key_4" }]);
    await using mapped = await started({ map: ({ text }) => ({ type: "x", keyId: "k", dataText: text }) });
    await mapped.add("[2]");
    await mapped.done();
    expect(mapped.told).toMatchObject([{ type: "x", id: `${mapped.table}-1` }]);
  });

  it("is shared by several nodes, and each event is stored once", async () => {
    const first = await bench();
    const second = await bench({ table: first.table });
    await first.add(...Array.from({ length: 3_000 }, (_, i) => event({ data: i })));
    const { intake, told } = desk();
    for (const { source } of [first, second]) await source.start(intake.accept, info);
    await first.done();
    await Promise.all([first.source.stop(), second.source.stop()]);
    expect(told).toHaveLength(3_000);
  });

  it("is stored in the order of its ids, wherever its rows stand", async () => {
    const made = await bench();
    await made.add(...Array.from({ length: 12 }, () => event()));
    // An update writes a row anew, behind the others.
    await server.query(`UPDATE ${made.table} SET tenant = 'x' WHERE id < 4`);
    const { intake, told } = desk();
    await using _ = made;
    await made.source.start(intake.accept, info);
    await made.done();
    expect(told.map(({ id }) => id)).toEqual(Array.from({ length: 12 }, (_, i) => `${made.table}-${i + 1}`));
  });

  it("has all its rows again when the source stops before they are stored", async () => {
    const made = await bench();
    await made.add(event(), "no JSON", event());
    await made.source.start(() => Promise.reject(new Problem("STORAGE_FULL", "full")), info);
    await until(() => made.source.readiness?.() !== undefined);
    await made.source.stop();
    expect([await made.left(), (await made.dead()).length]).toEqual([3, 0]);
  });

  it("is not kept in an open transaction while nothing can be stored", async () => {
    const clock = testClock();
    await using made = await bench({ clock });
    const { intake, told } = desk();
    let refusing = true;
    await made.add(event());
    await made.source.start((request) => {
      if (refusing) throw new Problem("STORAGE_FULL", "full");
      return intake.accept(request);
    }, info);
    const open = async (): Promise<number> =>
      (await server.query("SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'")).length;
    await until(() => made.source.readiness?.() !== undefined);
    expect(await open()).toBe(1);
    await clock.advance(40_000);
    await until(async () => (await open()) === 0);
    refusing = false;
    await clock.advance(60_000);
    await made.done();
    expect(told).toHaveLength(1);
  });

  it("is held up by no row that the dead table refuses, and the source says so until it takes it", async () => {
    const made = await bench({ pollMs: 10 });
    await server.query(`ALTER TABLE ${made.table}_dead ADD CONSTRAINT narrow CHECK (id <> 2)`);
    await made.add("bad", "worse", event());
    const { intake, told } = desk();
    await made.source.start(intake.accept, info);
    await until(async () => (await made.left()) === 1);
    await made.add(event({ id: "behind" }));
    await until(async () => (await made.left()) === 1 && told.length === 2);
    expect(await made.dead()).toMatchObject([{ id: "1" }]);
    await until(() => made.source.readiness?.()?.includes(`a row cannot be moved to ${made.table}_dead: `) === true);
    expect(made.log.lines.filter(({ message }) => message === "a row cannot be set aside")).toHaveLength(1);
    // It is read at each poll, and is one message that was found to be bad.
    const reads = await polls();
    await until(async () => (await polls()) > reads + 20);
    expect(made.metrics.counted.get("source_dead_lettered postgres")).toBe(2);
    expect(made.log.lines.filter(({ message }) => message === "a message is set aside")).toHaveLength(2);
    await server.query(`ALTER TABLE ${made.table}_dead DROP CONSTRAINT narrow`);
    await made.done();
    expect(await made.dead()).toMatchObject([{ id: "1" }, { id: "2", event: "worse" }]);
    await until(() => made.source.readiness?.() === undefined);
    await made.source.stop();
  });

  it("without its dead table is not read, and the source says so", async () => {
    await using made = await bench();
    await server.query(`DROP TABLE ${made.table}_dead`);
    await made.source.start(desk().intake.accept, info);
    await until(() => made.source.readiness?.() !== undefined);
    expect(made.source.readiness?.()).toBe(`there is no table ${made.table}_dead`);
  });

  it("goes on where it was when PostgreSQL is killed and comes back", async () => {
    await using own = await startPostgres();
    const table = await outbox("text", own);
    const ctx = context({ clock: systemClock(), secret: () => own.url });
    const source = await fromPostgres({ url: own.url, table, pollMs: 50 }).setup(ctx);
    const { intake, told } = desk();
    let killed: Promise<void> | undefined;
    const accept: Accept = async (request) => {
      const answer = await intake.accept(request);
      // Between the commit here and the one there, once.
      await (killed ??= own.kill());
      return answer;
    };
    await own.query(`INSERT INTO ${table} (event) VALUES ($1)`, [event({ data: 1 })]);
    await source.start(accept, info);
    await until(() => source.readiness?.() !== undefined);
    await own.start();
    const rows = () => own.query(`SELECT 1 FROM ${table}`).then(({ length }) => length);
    expect(await rows()).toBeGreaterThanOrEqual(0);
    await own.query(`INSERT INTO ${table} (event) VALUES ($1)`, [event({ data: 2 })]);
    await until(async () => (await rows()) === 0 && source.readiness?.() === undefined);
    await source.stop();
    expect(told.map(({ body }) => (JSON.parse(body) as { data: number }).data)).toEqual([1, 2]);
  });

  it("is stored once and whole by a relay that is killed again and again", async () => {
    const total = 9_000;
    const table = await outbox("jsonb");
    await server.query(
      `INSERT INTO ${table} (event) SELECT jsonb_build_object('type', 'deposit:paid', 'keyId', 'key_1', 'data', n)
        FROM generate_series(0, $1) n`,
      [total - 1],
    );
    await expectNothingLost({
      folder: testFolder(),
      source: `fromPostgres({ url: ${JSON.stringify(server.url)}, table: "${table}" })`,
      imports: ["fromPostgres"],
      total,
      kills: 3,
      left: async () => Number((await server.query(`SELECT count(*) AS n FROM ${table}`))[0]?.["n"]),
    });
  }, 240_000);

  it("stops soon, also while its server does not answer", async () => {
    const table = await outbox();
    await using shim = await tcpShim(Number(new URL(server.url).port));
    const source = fromPostgres({ url: server.url.replace(/:\d+\//, `:${shim.port}/`), table });
    const send = () => server.query(`INSERT INTO ${table} (event) VALUES ($1)`, [event()]);
    // Far sooner than the statement under way is given up.
    expect(await stopWhileSilent(source, { send, silence: shim.swallow })).toBeLessThan(20_000);
  });
});

/** Transactions that the server has begun: each poll is one. */
async function polls(): Promise<number> {
  await server.query("SELECT pg_stat_force_next_flush()");
  const [row] = await server.query("SELECT sum(xact_commit)::int AS n FROM pg_stat_database");
  return Number(row?.["n"]);
}

describe("the options of fromPostgres", () => {
  it("are checked", () => {
    const wrong = { url: "http://x", table: "a b", done: "burn", cursor: 1, channel: "é", pollMs: 1, maxInFlight: 0 };
    const paths = fromPostgres(wrong as unknown as PostgresOptions).problems?.map(({ path }) => path);
    expect(paths).toEqual(["url", "table", "done", "cursor", "channel", "pollMs", "maxInFlight"]);
    expect(fromPostgres({ url: "postgres://x/y", table: "shop.outbox" }).problems).toEqual([]);
    expect(fromPostgres({ url: "postgres://x/y", cursor: true, done: "mark" }).problems).toHaveLength(1);
  });
});
