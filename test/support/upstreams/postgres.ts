/** A table of PostgreSQL as an upstream: an outbox with its dead table, as the documentation makes them. */
import { fromPostgres } from "../../../plugins/source/postgres.ts";
import type { Upstream } from "../message-laws.ts";
import { documented, startPostgres, type PostgresServer } from "../postgres.ts";

export interface PostgresUpstream extends Upstream {
  readonly server: PostgresServer;
  newTable(type?: string): Promise<string>;
}

/** Columns of CloudEvents in binary mode. */
const CLOUD = ["specversion", "id", "source", "type", "subject"].map((name) => `ADD ce_${name} text`).join();

export async function postgresUpstream(): Promise<PostgresUpstream> {
  const server = await startPostgres();
  let count = 0;
  async function newTable(type = "text"): Promise<string> {
    const table = `outbox${++count}`;
    await server.query(documented("outbox", table) + documented("mark", table));
    // Messages of all kinds, valid or not.
    await server.query(
      `ALTER TABLE ${table} ALTER event DROP NOT NULL, ALTER event TYPE ${type}, ADD tenant text, ${CLOUD}`,
    );
    return table;
  }
  return {
    server,
    port: server.port,
    newTable,
    from: fromPostgres,
    factory: "fromPostgres",
    make: () => newTable(),
    options: (table, maxInFlight, port = server.port) => ({
      ...{ url: `postgres://relay@127.0.0.1:${port}/postgres`, table, pollMs: 100 },
      ...(maxInFlight !== undefined && { maxInFlight }),
    }),
    send(table, payloads, headers = {}) {
      const names = ["event", ...Object.keys(headers)].join();
      const values = Object.values(headers).map((value) => `, '${value}'`);
      return server.query(`INSERT INTO ${table} (${names}) SELECT unnest($1::text[])${values.join("")}`, [payloads]);
    },
    left: async (table) =>
      Number((await server.query(`SELECT count(*) AS n FROM ${table} WHERE done_at IS NULL`))[0]?.["n"]),
    async dead(table) {
      const rows = await server.query(`SELECT * FROM ${table}_dead ORDER BY id`);
      return rows.map(({ event, code }) => ({ payload: String(event), code }));
    },
    async refuseDead(table) {
      await server.query(`ALTER TABLE ${table}_dead ADD CONSTRAINT narrow CHECK (id < 0)`);
      return () => server.query(`ALTER TABLE ${table}_dead DROP CONSTRAINT narrow`);
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
