/** The SQL of an outbox in MySQL and MariaDB. */
import { backticked, mysqlText } from "../../brokers/mysql.ts";
import { causeOf } from "../../../core/lib/reason.ts";
import type { Dialect } from "../outbox/dialect.ts";
import type { Column, Kind, TableName } from "../outbox/layout.ts";
import { quoted } from "../outbox/statements.ts";

const KINDS: Readonly<Record<string, Kind>> = {
  ...{ smallint: "number", mediumint: "number", int: "number", bigint: "number", tinyint: "flag" },
  ...{ char: "text", varchar: "text", tinytext: "text", text: "text", mediumtext: "text", longtext: "text" },
  ...{ binary: "binary", varbinary: "binary", tinyblob: "binary", blob: "binary", mediumblob: "binary" },
  ...{ longblob: "binary", uuid: "uuid", json: "json", timestamp: "time", datetime: "time" },
};

/** Codes that speak of the statement: of a client that lost its server there is no number. */
const REFUSED =
  /^(?:ER_(?!LOCK_|CON_COUNT|SERVER_SHUTDOWN|NORMAL_SHUTDOWN|QUERY_|OPTION_PREVENTS|DISK_FULL|OUT_OF)|WARN_DATA)/;

/** What a user may not do, and what a view does not let through. */
const FORBIDDEN = /^ER_(?:TABLEACCESS_DENIED|COLUMNACCESS_DENIED|NON_UPDATABLE|VIEW_)/;

/** Where a table is: in the schema that is named, or in the database of the URL. */
const placeOf = ({ parts }: TableName): string =>
  `table_schema = ${parts.length > 1 ? mysqlText(parts[0] as string) : "DATABASE()"} AND table_name = ${mysqlText(parts.at(-1) as string)}`;

export const mysqlDialect: Dialect = {
  name: backticked,
  now: "UTC_TIMESTAMP(6)",
  takeFinishes: false,
  // Of ids that are many beside the rest of the table, the whole table is read, which waits for rows of other transactions.
  hasPairs: false,
  mostIds: 50,
  isOpen: (flag) => `(${flag} IS NULL OR ${flag} = 0)`,
  isRefusal: (error) => REFUSED.test(String((error as { readonly code?: unknown }).code)),
  id({ idKind }, id) {
    if (idKind === "number") return id;
    return idKind === "binary" ? `x'${id.slice(2)}'` : mysqlText(id);
  },

  /** By the index of the ids: a scan of the table would wait for locks as well. */
  finish({ idIndex }, from, mark, which) {
    const by = idIndex === undefined ? "" : ` FORCE INDEX (${backticked(idIndex)})`;
    return mark === undefined
      ? `DELETE o FROM ${from} AS o${by} WHERE ${which}`
      : `UPDATE ${from}${by} SET ${mark} WHERE ${which}`;
  },

  async shape(connection, { table, dead, columns: { id = "id" }, mode }) {
    const [own] = await connection.rows(
      `SELECT table_type AS kind, engine AS engine FROM information_schema.tables WHERE ${placeOf(table)}`,
    );
    if (own === undefined) return undefined;
    const described = (of: TableName) =>
      connection.rows(
        `SELECT column_name AS name, data_type AS type FROM information_schema.columns WHERE ${placeOf(of)}`,
      );
    const columns = new Map(
      (await described(table)).map(({ name, type }) => [name, { type, kind: KINDS[type ?? ""] }] as [string, Column]),
    );
    const deadColumns = (await described(dead)).map(({ name }) => name as string);
    const isTable = own["kind"] === "BASE TABLE";
    const indexed = await connection.rows(
      `SELECT column_name AS name, index_name AS by_index FROM information_schema.statistics WHERE ${placeOf(table)} AND seq_in_index = 1`,
    );
    const faults: string[] = [];
    if (isTable && own["engine"] !== "InnoDB")
      faults.push(`${table.label} is of ${own["engine"]}, which has no transactions: it needs InnoDB`);
    const from = quoted(mysqlDialect, table);
    const set = mode === "mark" ? `${backticked(id)} = ${backticked(id)}` : undefined;
    // Its plan takes the rights of the statement.
    await connection.rows(`EXPLAIN ${mysqlDialect.finish({}, from, set, "1 = 0")}`).catch((error: unknown) => {
      if (FORBIDDEN.test(String((error as { readonly code?: unknown }).code))) faults.push(causeOf(error));
    });
    return {
      columns,
      faults,
      dead: deadColumns.length === 0 ? undefined : new Set(deadColumns),
      indexed: isTable ? new Map(indexed.map(({ name, by_index }) => [name as string, by_index as string])) : undefined,
    };
  },

  take: (_, { from, open, order, count }) =>
    `SELECT * FROM ${from}${open} ORDER BY ${order} LIMIT ${count} FOR UPDATE SKIP LOCKED`,

  move({ id, body, bodyKind, isSplit, columns }, { from, dead, which, finish, poison: { code, detail } }) {
    const valueOf = (name: string, kind: Kind | undefined): string =>
      kind === "binary" ? `HEX(${backticked(name)})` : backticked(name);
    const all = [...columns].map(([name, { kind }]) => `${mysqlText(name)}, ${valueOf(name, kind)}`);
    const event = isSplit ? `JSON_OBJECT(${all.join()})` : bodyKind === "binary" ? `CONVERT(${backticked(body)} USING utf8mb4)` : backticked(body); // prettier-ignore
    const values = `${backticked(id)}, ${event}, ${mysqlText(code)}, ${mysqlText(detail)}`;
    // The row stays locked until it is finished: another node finds it gone.
    const copied = `SELECT ${values} FROM ${from} WHERE ${which} FOR UPDATE`;
    return [`INSERT INTO ${dead} (id, event, code, reason) ${copied}`, finish(which)];
  },
};
