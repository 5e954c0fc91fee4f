/** Makes the schema in the database and brings it up to date, one node at a time, where the role has the right. */
import { StartError } from "../../../core/model/errors.ts";
import { CLOCK_SQL } from "./clock-sql.ts";
import { LIMITER_SQL } from "./limiter-sql.ts";
import { QUEUE_SQL } from "./queue-sql.ts";
import { LOCK, STEPS_SQL } from "./steps-sql.ts";
import type { Client, PostgresPlace } from "./server.ts";

/** Grows with every change of a table or a function. */
const VERSION = 1;

/** The clause that each function carries (`@path`). Plans that were made while tables were empty stay right. Behind a pooler no session has settings of its own. */
const path = (schema: string): string =>
  `set search_path = "${schema}", pg_temp set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off`;

const HOT =
  "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0";

/**
 * `kv` has all records but the due lines, which are in `due`. `ready`: subscriptions by when they want to be served. `done`:
 * ids of batches, for a minute. `head`, `epoch`: how many commits watchers were told of, and the last of them. `moved`: keys by
 * the epoch at which a subscription of theirs changed. `node`, `word`: the nodes and their messages. `tally`: the limiter.
 * Values are not compressed: they are short, or sealed, and it would cost more than all else.
 */
const tables = (schema: string): string => `
do $$ begin
  -- To make one that is there already needs a right too.
  if to_regnamespace('"${schema}"') is null then create schema "${schema}"; end if;
end $$;
set local search_path = "${schema}", pg_temp;
create table if not exists meta (what text primary key, value text not null);
create table if not exists kv (key text collate "C" primary key, value text not null)
  with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
alter table kv alter column value set storage external;
create table if not exists due (
  key text collate "C" primary key, sub text collate "C" not null, at bigint not null, value text not null,
  token text collate "C", held bigint) with (fillfactor = 70, ${HOT});
-- The same order by another name: a line that is looked for by its key must not be looked for here, where the whole index is read.
create index if not exists due_by_sub on due (sub, at, key collate "POSIX");
create index if not exists due_dropped on due (key) where at = 9000000000000000;
create table if not exists ready (
  sub text collate "C" primary key, pos bigint not null, pause bigint not null default 0, hold bigint not null default 0)
  with (fillfactor = 50, ${HOT});
create index if not exists ready_by_pos on ready (pos);
create sequence if not exists turn cache 1;
create table if not exists done (id text collate "C" primary key, at bigint not null, reply text) with (${HOT});
create index if not exists done_by_at on done (at);
create table if not exists head (one boolean primary key default true check (one), n bigint not null, id text not null, word bigint not null);
insert into head values (true, 0, '', 0) on conflict do nothing;
create table if not exists epoch (n bigint primary key, id text not null, keys text not null);
insert into epoch values (0, '', '[]') on conflict do nothing;
create table if not exists moved (key text collate "C" primary key, n bigint not null);
create table if not exists node (id text collate "C" primary key, seen bigint not null) with (fillfactor = 50);
create table if not exists word (n bigint primary key, at bigint not null, text text not null);
create table if not exists clock (one boolean primary key default true check (one), mark bigint not null, ahead bigint not null) with (fillfactor = 50);
insert into clock values (true, 0, 0) on conflict do nothing;
create table if not exists tally (key text collate "C" primary key, state bigint[] not null, until bigint not null) with (fillfactor = 50);
`;

const functions = (schema: string): string =>
  [CLOCK_SQL, STEPS_SQL, QUEUE_SQL, LIMITER_SQL].join("").replaceAll("@path", path(schema));

/**
 * Makes the schema, or brings it up to date: where that is done already, no right is needed but to read it.
 * @throws StartError 78 when it is newer than this relay, or this role may not make it
 */
export async function makeSchema(client: Client, schema: string, place: PostgresPlace): Promise<void> {
  if ((await versionOf(client, schema)) === VERSION) return;
  try {
    await client.query(
      `begin; set local lock_timeout = '10s'; select pg_advisory_xact_lock(${LOCK}, hashtext('${schema}'))`,
    );
    const found = await versionOf(client, schema);
    if (found > VERSION)
      throw new StartError(
        78,
        `the schema ${schema} of ${place()} was made by a newer relay (version ${found}, this one knows ${VERSION})`,
      );
    if (found < VERSION) {
      await client.query(tables(schema) + functions(schema));
      await client.query(
        `insert into "${schema}".meta values ('version', '${VERSION}') on conflict (what) do update set value = excluded.value`,
      );
    }
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    if ((error as { readonly code?: string }).code !== "42501") throw error;
    throw new StartError(
      78,
      `the role may not make the schema ${schema} in ${place()} (${(error as Error).message}): let its owner start a relay once, or see docs/postgres.md for the rights`,
      { cause: error },
    );
  }
}

/** @returns 0 where there is no such schema */
async function versionOf(client: Client, schema: string): Promise<number> {
  const { rows } = await client.query<{ made: string | null }>("select to_regclass($1) as made", [`"${schema}".meta`]);
  if (rows[0]?.made === null) return 0;
  const found = await client.query<{ value: string }>(`select value from "${schema}".meta where what = 'version'`);
  return Number(found.rows[0]?.value ?? 0);
}
