// fromPostgres with a cursor, against a real server: it writes nothing, and passes no transaction that is still open.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PluginContext } from "../../core/ports/plugin.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import { context } from "../support/context.ts";
import { testFolder } from "../support/folder.ts";
import { desk, paid, type Desk } from "../support/intake.ts";
import { expectNothingLost } from "../support/ledger.ts";
import { needs } from "../support/needs.ts";
import { documented, polls, startPostgres, type PostgresServer } from "../support/postgres.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { shelf } from "../support/shelf.ts";
import { describeLearning } from "../support/message-laws.ts";
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

/** A table as the documentation makes it. */
async function table(): Promise<string> {
  const name = `feed${++tables}`;
  await server.query(documented("feed", name));
  await server.query(`ALTER TABLE ${name} ALTER event TYPE text`);
  return name;
}

interface Given extends Partial<Omit<PluginContext, "storage">> {
  readonly storage?: ReturnType<typeof shelf>;
}

async function bench(from: string, { storage = shelf(), ...given }: Given = {}) {
  const [log, metrics] = [quietLog(), quietMetrics()];
  const ctx = context({ clock: systemClock(), log, metrics, storage, secret: () => server.url, ...given });
  const options = { url: server.url, table: from, cursor: true, pollMs: 10 };
  const source = await fromPostgres(options).setup(ctx);
  const cursor = (): { readonly tx: string; readonly id: string } | undefined => {
    const text = storage.rows.get(`cursor:${from}`);
    return text === undefined ? undefined : (JSON.parse(text) as { tx: string; id: string });
  };
  return { source, log, metrics, storage, cursor, [Symbol.asyncDispose]: () => source.stop() };
}

const add = (name: string, ...events: readonly string[]) =>
  server.query(`INSERT INTO ${name} (event) SELECT unnest($1::text[])`, [events]);

/** Adds the events, reads the table until the cursor is at a row, and stops. */
async function readTo(id: string, name: string, { intake }: Desk, storage = shelf(), ...events: readonly string[]) {
  const made = await bench(name, { storage });
  await add(name, ...events);
  await made.source.start(intake.accept, info);
  await until(() => made.cursor()?.id === id);
  await made.source.stop();
  return made;
}

describe.skipIf(missing !== undefined)("fromPostgres with a cursor keeps the law of a source:", () => {
  describeLearning(async (given) => {
    const name = await table();
    const made = await bench(name, { clock: given?.clock, log: given?.log } as Given);
    return {
      source: made.source,
      send: (text) => add(name, text),
      learned(said) {
        if (said.includes("a message is set aside")) return "refused";
        return made.cursor() === undefined ? undefined : "acknowledged";
      },
    };
  });
});

describe.skipIf(missing !== undefined)("a table that is read with a cursor", () => {
  it("is not written to, and a restart goes on behind what is stored", async () => {
    const [name, made] = [await table(), desk()];
    const first = await readTo("3", name, made, shelf(), event(), "no JSON", event());
    const second = await readTo("4", name, made, first.storage, event());
    expect(made.told.map(({ id }) => id)).toEqual([1, 3, 4].map((id) => `${name}-${id}`));
    expect(first.log.lines).toMatchObject([{ message: "a message is set aside", fields: { name: `${name}-2` } }]);
    expect(second.metrics.counted.has("source_redelivered postgres")).toBe(false);
    expect(await server.query(`SELECT count(*)::int AS n FROM ${name}`)).toEqual([{ n: 4 }]);
  });

  it("keeps a row without a valid event with the reason, before it goes on behind it", async () => {
    const [name, made] = [await table(), desk()];
    const { storage } = await readTo("3", name, made, shelf(), event(), '{"type":"no key"}', event());
    const kept = [...storage.rows].filter(([key]) => key.startsWith("set-aside/postgres/"));
    expect(kept.map(([, text]) => JSON.parse(text) as object)).toMatchObject([
      {
        ...{ place: `${name}-2`, subject: name, code: "VALIDATION_FAILED", detail: expect.stringContaining("keyId") },
        payload: Buffer.from('{"type":"no key"}').toString("base64"),
      },
    ]);
    expect(made.told.map(({ id }) => id)).toEqual([1, 3].map((id) => `${name}-${id}`));
  });

  it("is read again from a bad row that could not be kept, so that none is lost", async () => {
    const name = await table();
    const storage = shelf();
    storage.before = (changes) => {
      if (changes.some(({ key }) => key.startsWith("set-aside/"))) throw new Error("the disk is full");
    };
    await using made = await bench(name, { storage });
    const { intake, told } = desk();
    await add(name, event(), "no JSON", event());
    await made.source.start(intake.accept, info);
    await until(() => made.source.readiness?.()?.includes("the disk is full") === true);
    expect(made.cursor()).toBeUndefined();
    storage.before = () => {};
    await until(() => made.cursor()?.id === "3");
    expect([...storage.rows.keys()].filter((key) => key.startsWith("set-aside/postgres/"))).toHaveLength(1);
    expect(new Set(told.map(({ id }) => id))).toEqual(new Set([1, 3].map((id) => `${name}-${id}`)));
  });

  it("is read on while what was read is being stored, and the cursor waits for all before it", async () => {
    const name = await table();
    const storage = shelf();
    storage.before = (changes) => {
      if (changes.some(({ key }) => key.startsWith("set-aside/"))) throw new Error("the disk is full");
    };
    await using made = await bench(name, { storage });
    const { intake, told } = desk();
    const storing = Promise.withResolvers<void>();
    // Of messages of unknown size, 64 are read first.
    await add(name, "no JSON", ...Array.from({ length: 199 }, () => event()));
    await made.source.start(async (request) => (await storing.promise, await intake.accept(request)), info);
    await until(() => isReadOn(name));
    storing.resolve();
    await until(() => made.source.readiness?.()?.includes("the disk is full") === true);
    expect(made.cursor()).toBeUndefined();
    storage.before = () => {};
    await until(() => made.cursor()?.id === "200");
    expect(new Set(told.map(({ id }) => id)).size).toBe(199);
    expect([...storage.rows.keys()].filter((key) => key.startsWith("set-aside/"))).toHaveLength(1);
  });

  it("is not read past a transaction that is still open, whose rows come later and are not lost", async () => {
    const name = await table();
    await using made = await bench(name);
    const { intake, told } = desk();
    await made.source.start(intake.accept, info);
    const open = await server.connect();
    await open.query("BEGIN");
    await open.query(`INSERT INTO ${name} (event) VALUES ($1)`, [event({ data: "slow" })]);
    // It has the greater id, and is committed first.
    await add(name, event({ data: "fast" }));
    const seen = await server.query(`SELECT id FROM ${name}`);
    expect(seen).toEqual([{ id: "2" }]);
    // Some polls pass.
    const before = await polls(server);
    await until(async () => (await polls(server)) > before + 5);
    expect(told).toEqual([]);
    await open.query("COMMIT");
    await until(() => told.length === 2);
    expect(told.map(({ id }) => id)).toEqual([`${name}-1`, `${name}-2`]);
    await open.end();
  });

  it("shows how many rows an open transaction holds back, and for how long", async () => {
    const name = await table();
    const open = await server.connect();
    await open.query("BEGIN");
    await open.query(`INSERT INTO ${name} (event) VALUES ($1)`, [event({ data: "slow" })]);
    for (const data of ["one", "two"]) await add(name, event({ data }));
    await using made = await bench(name);
    const { intake, told } = desk();
    await made.source.start(intake.accept, info);
    const { shown } = made.metrics;
    await until(() => shown.get("relay_source_backlog postgres") === 2);
    await until(() => made.source.readiness?.() === undefined && (shown.get("source_lag_seconds postgres") ?? 0) > 0);
    expect(told).toEqual([]);
    await open.query("COMMIT");
    await until(() => told.length === 3);
    await open.end();
  });

  it("of several nodes never goes backwards, whichever of them is slow", async () => {
    const name = await table();
    const storage = shelf();
    const key = `cursor:${name}`;
    // Another node writes it while this one stores a page: it is at another row of the same transaction.
    let elsewhere: string | undefined = "1000";
    const written: (string | undefined)[] = [];
    storage.before = ([change]) => {
      if (change?.key !== key || change.op !== "put" || elsewhere === undefined) return;
      const { tx } = JSON.parse(change.value) as { readonly tx: string };
      storage.rows.set(key, JSON.stringify({ tx, id: elsewhere }));
      elsewhere = undefined;
    };
    await using made = await bench(name, { storage });
    storage.after = ([change]) => void (change?.key === key && written.push(made.cursor()?.id));
    const { intake, told } = desk();
    await add(name, event(), event(), event());
    await made.source.start(intake.accept, info);
    await until(() => elsewhere === undefined);
    await add(name, event());
    await until(() => made.cursor()?.id === "4");
    expect(written).toEqual(["4"]);
    // One that has fallen behind is passed.
    elsewhere = "1";
    await add(name, event());
    await until(() => made.cursor()?.id === "5");
    expect(told.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5].map((id) => `${name}-${id}`));
  });

  it("in a database that was made anew is not skipped in silence", async () => {
    const name = await table();
    const storage = shelf();
    await storage.commit([{ op: "put", key: `cursor:${name}`, value: JSON.stringify({ tx: "9000000000", id: "7" }) }]);
    await using made = await bench(name, { storage });
    await made.source.start(desk().intake.accept, info);
    await until(() => made.source.readiness?.() !== undefined);
    expect(made.source.readiness?.()).toContain("is in another database than before");
  });

  it.each([
    ["has another digit", (text: string) => text.replace('"id":"2"', '"id":"4"')],
    ["is torn", (text: string) => text.slice(0, text.length / 2)],
    ["is JSON of another kind", () => "null"],
  ])("passes over nothing when its cursor %s, and says what to do", async (_, damage) => {
    const [name, made, storage] = [await table(), desk(), shelf()];
    await readTo("2", name, made, storage, event(), event());
    await add(name, event(), event());
    const [key, text] = [`cursor:${name}`, storage.rows.get(`cursor:${name}`) ?? ""];
    expect(damage(text)).not.toBe(text);
    storage.rows.set(key, damage(text));
    const second = await bench(name, { storage });
    await second.source.start(made.intake.accept, info);
    await until(() => second.source.readiness?.() !== undefined);
    expect(second.source.readiness?.()).toContain(`its place in ${name} is damaged`);
    await second.source.stop();
    expect(made.told).toHaveLength(2);
    // Once it is as it was, it goes on behind it.
    storage.rows.set(key, text);
    await readTo("4", name, made, storage);
    expect(made.told).toHaveLength(4);
  });

  it("goes on behind a cursor that version 0.1.0 has written", async () => {
    const [name, made, storage] = [await table(), desk(), shelf()];
    const { tx, id } = (await readTo("2", name, made, storage, event(), event())).cursor() ?? {};
    storage.rows.set(`cursor:${name}`, JSON.stringify({ tx, id }));
    const { metrics } = await readTo("3", name, made, storage, event());
    expect(made.told.map((one) => one.id)).toEqual([1, 2, 3].map((n) => `${name}-${n}`));
    expect(metrics.counted.has("source_redelivered postgres")).toBe(false);
  });

  it("is stored once and whole by a relay that is killed again and again", async () => {
    const [name, total] = [await table(), 9_000];
    // In transactions of their own, so that the cursor has places to be at.
    for (let at = 0; at < total; at += 500)
      await add(name, ...Array.from({ length: 500 }, (_, i) => event({ data: at + i })));
    let known = 0;
    await expectNothingLost({
      folder: testFolder(),
      source: `fromPostgres({ url: ${JSON.stringify(server.url)}, table: "${name}", cursor: true, pollMs: 50 })`,
      imports: ["fromPostgres"],
      total,
      kills: 3,
      // Nothing is written to the table: the relay says how far it is.
      async left(relay) {
        const stored = async (id: number): Promise<boolean> =>
          (await relay?.call("GET", `/api-keys/key_1/events/${name}-${id}`))?.status === 200;
        while (known < total && (await stored(known + 500))) known += 500;
        return total - known;
      },
    });
  }, 240_000);
});

/** Returns true when the last query of a connection is for the rows behind some that were read. */
async function isReadOn(name: string): Promise<boolean> {
  const like = `%"${name}" WHERE ("tx", "id") > %`;
  const found = await server.query("SELECT 1 FROM pg_stat_activity WHERE query LIKE $1 AND pid <> pg_backend_pid()", [
    like,
  ]);
  return found.length > 0;
}
