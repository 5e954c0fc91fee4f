/** PostgreSQL's own SQL of an outbox. */
import { literal, quotedName } from "../../brokers/postgres.ts";
import type { Dialect } from "../outbox/dialect.ts";
import type { Column, Kind, ReadMode, TableName } from "../outbox/layout.ts";
import { quoted } from "../outbox/statements.ts";

/** Codes of PostgreSQL that speak of the statement; those of lost connections, cancelled queries and faults of its own do not. */
const REFUSAL = /^(?!08|57|58)(?:\d\w|P0)\w{3}$/;

const KINDS: Readonly<Record<string, Kind>> = {
  ...{ int2: "number", int4: "number", int8: "number", uuid: "uuid", text: "text", varchar: "text", bpchar: "text" },
  ...{ bytea: "binary", json: "json", jsonb: "json", timestamptz: "time", timestamp: "time", bool: "flag" },
  xid8: "transaction",
};

/** Of a domain, the type below it. What the user may do, and what may be done to a view, are bits of the catalogue. */
const SHAPE = `SELECT c.relkind AS kind, c.relhassubclass AS parent, pg_relation_is_updatable(c.oid, false) AS can,
  has_table_privilege(c.oid, 'SELECT') AS "SELECT", has_table_privilege(c.oid, 'UPDATE') AS "UPDATE",
  has_table_privilege(c.oid, 'DELETE') AS "DELETE", a.attname AS name, coalesce(b.typname, t.typname) AS type,
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum) AS indexed
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
  WHERE c.oid = to_regclass($1)`;
const DEAD =
  "SELECT attname AS name FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";

/** What each mode does to a table: the rights, and the bits of what a view lets through. */
const NEEDS: Readonly<Record<ReadMode, readonly (readonly [right: "SELECT" | "UPDATE" | "DELETE", bit: number])[]>> = {
  // Rows are locked, which takes the right to update them.
  delete: [["SELECT", 0], ["UPDATE", 4], ["DELETE", 16]],
  mark: [["SELECT", 0], ["UPDATE", 4]],
  cursor: [["SELECT", 0]],
}; // prettier-ignore

export const postgresDialect: Dialect = {
  name: quotedName,
  now: "now()",
  takeFinishes: true,
  hasPairs: true,
  mostIds: 10_000,
  isOpen: (flag) => `${flag} IS NOT TRUE`,
  isRefusal: (error) => REFUSAL.test(String((error as { readonly code?: unknown }).code)),
  id: ({ idKind }, id) => (idKind === "number" ? id : literal(id)),

  finish: (_, from, mark, which) =>
    mark === undefined ? `DELETE FROM ${from} WHERE ${which}` : `UPDATE ${from} SET ${mark} WHERE ${which}`,

  async shape(connection, { table, dead, mode }) {
    const found = await connection.rows(SHAPE, [quoted(postgresDialect, table)]);
    const [first] = found;
    if (first === undefined) return undefined;
    const columns = new Map(
      found.map(({ name, type }) => [name, { type, kind: KINDS[type ?? ""] }] as [string, Column]),
    );
    const faults: string[] = [];
    for (const [right, bit] of NEEDS[mode]) {
      if (first[right] !== "t") faults.push(`this user may not ${right} in ${table.label}`);
      if ((Number(first["can"]) & bit) !== bit)
        faults.push(`${table.label} is a view that lets no ${right} through: name its table, or read it with cursor`);
    }
    const isTable = first["kind"] === "r" || first["kind"] === "p";
    const indexed = found.filter(({ indexed }) => indexed === "t").map(({ name }) => [name as string, ""] as const);
    return {
      columns,
      faults,
      dead: await deadColumns(dead),
      indexed: isTable ? new Map(indexed) : undefined,
      // Of a table in parts, several rows stand at one place.
      hasPlaces: first["kind"] === "r" && first["parent"] === "f",
    };

    async function deadColumns(of: TableName): Promise<ReadonlySet<string> | undefined> {
      const names = (await connection.rows(DEAD, [quoted(postgresDialect, of)])).map(({ name }) => name as string);
      return names.length === 0 ? undefined : new Set(names);
    }
  },

  /** By place where that is possible: 1.2 times the rate of a SELECT and DELETE by ids. */
  take({ id, hasPlaces }, { from, open, order, count, finish }) {
    const by = hasPlaces ? "ctid" : quotedName(id);
    const next = `SELECT ${by} FROM ${from}${open} ORDER BY ${order} LIMIT ${count} FOR UPDATE SKIP LOCKED`;
    const taken = `${finish(`${by} = ANY(ARRAY(${next}))`)} RETURNING *`;
    return `WITH taken AS (${taken}) SELECT * FROM taken ORDER BY ${order}`;
  },

  move({ id, body, isSplit }, { from, dead, which, finish, poison: { code, detail } }) {
    const event = isSplit ? `to_jsonb(${from.slice(from.lastIndexOf(".") + 1)})::text` : `${quotedName(body)}::text`;
    const moved = `${finish(which)} RETURNING ${quotedName(id)} AS id, ${event} AS event`;
    const reason = `${literal(code)}, ${literal(detail)}`;
    return [
      `WITH moved AS (${moved}) INSERT INTO ${dead} (id, event, code, reason) SELECT id, event, ${reason} FROM moved`,
    ];
  },
};
