/** A table of MariaDB as an upstream: an outbox with its dead table, as the documentation makes them. */
import { fromMysql } from "../../../plugins/source/mysql.ts";
import type { Upstream } from "../message-laws.ts";
import { DATABASE, startMysql, type MysqlServer } from "../mysql.ts";
import { outboxSql } from "../outbox.ts";

export interface MysqlUpstream extends Upstream {
  readonly server: MysqlServer;
}

/** Columns of CloudEvents in binary mode. */
const CLOUD = ["specversion", "id", "source", "type", "subject"].map((name) => `ADD ce_${name} text`).join();

export async function mysqlUpstream(): Promise<MysqlUpstream> {
  const server = await startMysql();
  let count = 0;
  return {
    server,
    port: server.port,
    from: fromMysql,
    factory: "fromMysql",
    async make() {
      const table = `outbox${++count}`;
      await server.query(outboxSql("mysql", table));
      // Messages of all kinds, valid or not.
      await server.query(
        `ALTER TABLE ${table} MODIFY event longtext, ADD done_at datetime(6), ADD tenant text, ${CLOUD}`,
      );
      return table;
    },
    options: (table, maxInFlight, port = server.port) => ({
      ...{ url: `mysql://relay@127.0.0.1:${port}/${DATABASE}`, table, pollMs: 100 },
      ...(maxInFlight !== undefined && { maxInFlight }),
    }),
    async send(table, payloads, headers = {}) {
      const names = ["event", ...Object.keys(headers)].join();
      const rows = payloads.map((payload) => [payload, ...Object.values(headers)]);
      await server.query(`INSERT INTO ${table} (${names}) VALUES ?`, [rows]);
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
