/** The functions of the queue. Subscriptions take turns: one that was served goes to the end of the line. */
import { alone, DROPPED, same } from "./steps-sql.ts";

/**
 * `due.at` is when a line may be claimed: of a leased one the end of its lease, so that the lines of the dead come back by
 * themselves. `due.held` is then its own time. `ready.pos` is when the subscription wants to be served next, in millionths of
 * a ms: of those that are ready at once, the remainder says whose turn comes first.
 */
export const QUEUE_SQL = `
-- Files subscriptions that were served under the time of their next line. Where lines are being committed it looks again soon.
create or replace function refile(p_subs text[], n bigint) returns void language plpgsql as $$
declare rest text[]; sure text[];
begin
  with head as (select a as sub, (select d.at from due d where d.sub = a order by d.sub, d.at limit 1) as at from unnest(p_subs) a),
  again as (
    update ready r set pos = n * 1000000 + nextval('turn') % 1000000 from head h
    where ${same("r.sub", "h.sub")} and h.at <= n and greatest(r.pause, r.hold) <= n returning r.sub)
  select array_agg(q.sub) into rest from (select unnest(p_subs) as sub except select again.sub from again) q;
  if rest is null then return; end if;
  sure := array(select q.a from (select a, ${alone("a")} as got from unnest(rest) a) q where q.got);
  with head as (select a as sub, (select d.at from due d where d.sub = a order by d.sub, d.at limit 1) as at from unnest(rest) a)
  update ready r set pos = case
      when not r.sub = any(sure) then greatest(n + 20, r.pause, r.hold)
      when coalesce(h.at, ${DROPPED}) >= 8000000000000000 then greatest(r.pause, r.hold)
      else greatest(h.at, r.pause, r.hold) end * 1000000
    from head h where ${same("r.sub", "h.sub")};
  delete from ready r where r.sub = any(sure) and greatest(r.pause, r.hold) <= n
    and not exists (select 1 from due d where d.sub = r.sub and d.at < 8000000000000000);
end $$;

-- The first row has the state of the queue as JSON in its value, the others are leases.
create or replace function claim(p_now bigint, p_elapsed bigint, p_limit int, p_most int, p_lease bigint, p_token text, b_sub text[], b_count int[])
returns table (key text, value text, token text) language plpgsql @path as $$
#variable_conflict use_column
declare
  n bigint; subs text[]; open_subs text[]; room int[]; blocked text[]; left_ int := p_limit; share int; full_subs int;
  ks text[] := '{}'; vs text[] := '{}'; ts text[] := '{}'; os int[]; k text[]; v text[]; t text[]; next_at bigint; turns int[]; served int := 0; c record;
begin
  perform set_config('synchronous_commit', 'off', true);
  select * into c from time_now(p_now, p_elapsed);
  n := c.n;
  -- A step of the server's clock is noted by whoever sees it first.
  update clock set mark = c.server, ahead = c.ahead where clock.ahead <> c.ahead;
  select count(*) into full_subs from unnest(b_count) b where b >= p_most;
  subs := array(select r.sub from ready r where r.pos < (n + 1) * 1000000 order by r.pos limit p_limit + full_subs for update skip locked);
  -- Another claim has them all: what it leaves is there once it has ended.
  if subs = '{}' then subs := array(select r.sub from ready r where r.pos < (n + 1) * 1000000 order by r.pos limit p_limit + full_subs for update); end if;
  select array_agg(q.s order by q.o) filter (where q.r > 0), array_agg(q.r order by q.o) filter (where q.r > 0), array_agg(q.s) filter (where q.r <= 0)
    into open_subs, room, blocked
    from (select u.s, u.o, p_most - coalesce((select b.c from unnest(b_sub, b_count) b(s, c) where b.s = u.s), 0) as r from unnest(subs) with ordinality u(s, o)) q;
  if open_subs is not null then
    share := greatest(1, p_limit / cardinality(open_subs));
    turns := array(select g from generate_series(1, cardinality(open_subs)) g);
    for pass in 1..4 loop
      exit when left_ <= 0 or turns is null;
      with want as (select open_subs[g] as s, g as o, least(room[g] - served, share) as most from unnest(turns) g),
      picked as (
        select d.key, w.o, d.at, row_number() over (order by w.o, d.at, d.key) as rn
        from want w cross join lateral (
          select due.key, due.at from due where due.sub = w.s and due.at <= n order by due.sub, due.at, due.key collate "POSIX"
          limit greatest(0, w.most) for update skip locked) d),
      took as (
        update due set token = case when coalesce(due.held, 0) > n then null else p_token || '.' || pass || '.' || p.rn end,
          -- A node that held it for later has gone silent: it waits for its time.
          at = case when coalesce(due.held, 0) > n then due.held else n + p_lease end,
          held = case when coalesce(due.held, 0) > n then null else coalesce(due.held, p.at) end
        from picked p where ${same("due.key", "p.key")} and p.rn <= left_ returning due.key, due.value, due.token, p.o, p.at as was)
      select array_agg(q.key order by q.o, q.was, q.key) filter (where q.token is not null), array_agg(q.value order by q.o, q.was, q.key) filter (where q.token is not null),
          array_agg(q.token order by q.o, q.was, q.key) filter (where q.token is not null), array_agg(q.o) into k, v, t, os from took q;
      exit when os is null;
      served := served + share;
      turns := (select array_agg(q.o order by q.o) from (select o from unnest(os) o group by o having count(*) >= share) q where room[q.o] > served);
      if k is not null then
        ks := ks || k; vs := vs || v; ts := ts || t; left_ := left_ - cardinality(k);
      end if;
      if turns is not null then share := greatest(1, left_ / cardinality(turns)); end if;
    end loop;
    perform refile(open_subs, n);
  end if;
  select floor(q.pos / 1000000)::bigint into next_at
    from (select r.pos from ready r where not r.sub = any(coalesce(blocked, '{}')) order by r.pos limit 1) q;
  return query select null::text, jsonb_build_object('now', n, 'next', next_at, 'blocked', blocked)::text, null::text;
  return query select * from unnest(ks, vs, ts);
end $$;

-- Gives lines back: due at once as before, or in so many ms.
create or replace function hand_back(p_now bigint, p_elapsed bigint, p_keys text[], p_tokens text[], p_in bigint) returns void
language plpgsql @path as $$
declare n bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  select q.n into n from time_now(p_now, p_elapsed) q;
  with back as (
    update due d set token = null, held = null, at = case when p_in is null then least(coalesce(d.held, n), n) else n + p_in end
    from unnest(p_keys, p_tokens) x(key, token) where ${same("d.key", "x.key")} and d.token = x.token returning d.sub, d.at)
  insert into ready as r (sub, pos) select sub, min(at) * 1000000 from back group by 1 order by 1
  on conflict (sub) do update set pos = least(r.pos, greatest(excluded.pos, r.pause * 1000000, r.hold * 1000000));
end $$;

-- Renews leases, and returns the tokens that still hold.
create or replace function renew(p_now bigint, p_elapsed bigint, p_lease bigint, p_keys text[], p_tokens text[]) returns setof text
language plpgsql @path as $$
declare n bigint;
begin
  select q.n into n from time_now(p_now, p_elapsed) q;
  return query update due d set at = n + p_lease from unnest(p_keys, p_tokens) x(key, token)
    where ${same("d.key", "x.key")} and d.token = x.token returning d.token;
end $$;

-- Pauses (how 0) or holds (1) a subscription from now on.
create or replace function rest(p_now bigint, p_elapsed bigint, p_sub text, p_ms bigint, p_how int) returns void
language plpgsql @path as $$
declare n bigint; u bigint;
begin
  select q.n into n from time_now(p_now, p_elapsed) q;
  u := case when p_ms > 0 then n + p_ms else 0 end;
  insert into ready as r (sub, pos, pause, hold) values (p_sub, u * 1000000, case p_how when 0 then u else 0 end, case p_how when 1 then u else 0 end)
  on conflict (sub) do update set pause = case p_how when 0 then u else r.pause end, hold = case p_how when 1 then u else r.hold end;
  update ready r set pos = greatest(
      least(coalesce((select d.at from due d where d.sub = p_sub order by d.sub, d.at limit 1), 0), n), r.pause, r.hold) * 1000000
    where r.sub = p_sub;
end $$;

-- Drops so many lines of a subscription, and ends their leases. It begins at a time: what it has dropped is not passed again.
create or replace function cancel(p_now bigint, p_elapsed bigint, p_sub text, p_from bigint, p_most int, out lines bigint, out upto bigint)
language plpgsql @path as $$
declare n bigint;
begin
  with gone as materialized (
    select key, at from due where sub = p_sub and at >= p_from and at < ${DROPPED} order by sub, at limit p_most for update),
  dropped as (update due set token = null, held = null, at = ${DROPPED} from gone where ${same("due.key", "gone.key")} returning gone.at)
  select count(*), max(at) into lines, upto from dropped;
  if lines < p_most then
    select q.n into n from time_now(p_now, p_elapsed) q;
    -- A claim refiles it, so that no line that comes at this moment is missed.
    update ready set pos = least(pos, n * 1000000), pause = 0, hold = 0 where sub = p_sub;
  end if;
end $$;

create or replace function revive(p_now bigint, p_elapsed bigint, p_keys text[], p_in bigint[]) returns bigint language plpgsql @path as $$
declare n bigint; lines bigint;
begin
  select q.n into n from time_now(p_now, p_elapsed) q;
  with back as (
    update due d set at = least(n + x.inms, 8000000000000000) from unnest(p_keys, p_in) x(key, inms) where ${same("d.key", "x.key")} and d.at = ${DROPPED} returning d.sub, d.at),
  filed as (
    insert into ready as r (sub, pos) select sub, min(at) * 1000000 from back where at < 8000000000000000 group by 1 order by 1
    on conflict (sub) do update set pos = least(r.pos, greatest(excluded.pos, r.pause * 1000000, r.hold * 1000000)))
  select count(*) into lines from back;
  return lines;
end $$;

-- How many lines there are and are leased, and the oldest that is due and not paused.
create or replace function depth(p_now bigint, p_elapsed bigint, p_most bigint, out lines bigint, out leased bigint, out oldest bigint) language plpgsql @path as $$
declare n bigint; ahead bigint;
begin
  select q.n, q.ahead into n, ahead from time_now(p_now, p_elapsed) q;
  select count(*), count(*) filter (where q.token is not null and q.at > n) into lines, leased from (select token, at from due limit p_most) q;
  if lines = p_most then select greatest(lines, c.reltuples::bigint) into lines from pg_class c where c.oid = 'due'::regclass; end if;
  select min(d.at) - ahead into oldest
    from (select r.sub from ready r where r.pause <= n and (r.pos < (n + 1) * 1000000 or r.hold > n) order by r.pos limit 1000) r
    cross join lateral (select due.at from due where due.sub = r.sub and due.at <= n order by due.sub, due.at limit 1) d;
end $$;
`;
