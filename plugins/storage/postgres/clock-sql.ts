/**
 * The functions of the clock and of the nodes. The clock follows the server's, but continues when that is set back, and
 * ignores when that is set forwards: so every wait, lease and window keeps its length. Lines carry in how many ms they are
 * due, never the time of a node.
 */

/** A node that gave no sign of life for so long is dead: its lines go to the others, ms. */
const DEAD_MS = 10_000;

/**
 * Every function begins with two arguments: epoch ms in place of the server's clock, or null, and how many ms ago the
 * caller had the clock noted, by its monotonic clock. A caller from ten seconds ago knows that no day has passed since.
 * `clock` holds the last reading of the server's clock, and how far `n` is ahead of it. Only signs of life write it.
 */
export const CLOCK_SQL = `
create or replace function time_now(p_now bigint, p_elapsed bigint, out n bigint, out ahead bigint, out server bigint)
language plpgsql as $$
declare mark bigint;
begin
  server := coalesce(p_now, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);
  select c.mark, c.ahead into mark, ahead from clock c;
  if server < mark then
    -- What has passed since goes on, as far as the caller knows it.
    ahead := ahead + mark - server + least(coalesce(p_elapsed, 0), 5000);
  elsif p_elapsed is not null and server > mark + p_elapsed + 10000 then
    -- Some node gives a sign of life each second, so at most that may have passed since the last.
    ahead := ahead - (server - mark - least(p_elapsed, 1000));
  end if;
  n := server + ahead;
end $$;

-- A sign of life. p_epoch and p_word say up to where the node knows changes and messages: it gets what came since.
create or replace function beat(p_now bigint, p_elapsed bigint, p_node text, p_epoch bigint, p_word bigint)
returns text language plpgsql @path as $$
declare t record; h record;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform 1 from clock for update;
  select * into t from time_now(p_now, p_elapsed);
  update clock set mark = t.server, ahead = t.ahead;
  insert into node values (p_node, t.n) on conflict (id) do update set seen = excluded.seen;
  select * into h from head;
  return jsonb_build_object(
    'n', h.n, 'id', h.id, 'word', h.word,
    'known', (select e.id from epoch e where e.n = p_epoch),
    'changes', case when h.n > p_epoch then (select jsonb_agg(jsonb_build_array(e.n, e.id, e.keys) order by e.n) from epoch e where e.n > p_epoch) end,
    'words', case when h.word > p_word then (select jsonb_agg(w.text order by w.n) from word w where w.n > p_word) end,
    'others', (select count(*) from node o where o.id <> p_node and o.seen > t.n - 5000),
    'first', not exists (select 1 from node o where o.id < p_node and o.seen > t.n - 5000),
    'dead', (select jsonb_agg(o.id) from node o where o.id <> p_node and o.seen < t.n - ${DEAD_MS}))::text;
end $$;

-- The other nodes that gave a sign of life within so many ms. They get the text, unless it is null.
create or replace function ask(p_now bigint, p_elapsed bigint, p_node text, p_silent bigint, p_text text)
returns text language plpgsql @path as $$
declare t bigint; others jsonb; w bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  select n into t from time_now(p_now, p_elapsed);
  select jsonb_agg(o.id) into others from node o where o.id <> p_node and o.seen > t - p_silent;
  if p_text is not null and others is not null then
    -- Messages are numbered in the order of their commits: the row is locked until then.
    update head set word = head.word + 1 returning word into w;
    insert into word values (w, t, p_text);
    perform pg_notify(current_schema() || '_bell', 'w');
  end if;
  return others::text;
end $$;

-- Takes its lines from a node that died, once.
create or replace function bury(p_now bigint, p_elapsed bigint, p_node text) returns bigint
language plpgsql @path as $$
declare t bigint; lines bigint;
begin
  select n into t from time_now(p_now, p_elapsed);
  delete from node where id = p_node and seen < t - ${DEAD_MS};
  if not found then return 0; end if;
  with back as (
    update due d set token = null, held = null, at = coalesce(d.held, t) where starts_with(d.token, p_node || '.')
    returning d.sub, d.at),
  filed as (
    insert into ready as r (sub, pos) select sub, min(at) * 1000000 from back group by 1 order by 1
    on conflict (sub) do update set pos = least(r.pos, greatest(excluded.pos, r.pause * 1000000, r.hold * 1000000)))
  select count(*) into lines from back;
  return lines;
end $$;

-- Forgets what no repeat and no node asks for any more.
create or replace function tidy(p_now bigint, p_elapsed bigint) returns void language plpgsql @path as $$
declare t bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  select n into t from time_now(p_now, p_elapsed);
  delete from done where at < t - 60000;
  delete from word where at < t - 60000;
  delete from tally where until < t;
end $$;
`;
