/** The function of commits: one call is one transaction, which makes many steps, each wholly or not at all. */

/** Classes of advisory locks: keys whose subscriptions change, and buckets of subscriptions whose lines are filed. */
export const LOCK = 1_919_249_505;
const [KEYS, LINES] = [LOCK + 1, LOCK + 2];
/** The time of a line that a cancel has dropped: the next sweep finds it. */
export const DROPPED = "9000000000000000";
/** The reply of a batch that is never made, because somebody has asked for its end before it came. */
const NEVER = '{"o":[]}';
/** How many epochs are remembered. */
const EPOCHS = 1_000;

/** Locks rows of commits whose lines are filed, beside others of its kind. */
const filing = (subs: string): string =>
  `perform pg_advisory_xact_lock_shared(${LINES}, q.h) from (select distinct hashtext(a) & 127 h from unnest(${subs}) a order by 1) q;`;
/** Joins a table by its key: other than `=`, this cannot be planned as a look at the whole table, which is empty only for a while. */
export const same = (key: string, other: string): string => `${key} = any(array[${other}])`;
/** True where nobody commits lines of that subscription now. */
export const alone = (sub: string): string => `pg_try_advisory_xact_lock(${LINES}, hashtext(${sub}) & 127)`;

/**
 * The arguments by their first letter, each with its step: n new keys, w writes, x deletes, c conditions, a keys that must be
 * absent and are not written; of due lines: f fences, y deletes, e conditions, d writes; g keys of new events with the epoch
 * at which they were fanned out; s what watchers are told.
 *
 * A fence names the line that a step has leased, or, with an empty token, one that nobody may have leased. `drops`: 1 deletes
 * it, 0 ends the lease, 2 keeps it. How a line is written: 0 plain, 1 claimed at birth by the token, 2 kept by the token.
 *
 * Every set is locked in the order of its keys. A step whose keys are not as expected is left out; what races with another
 * transaction ends all with 40001 or 23505, and the same batch is tried again. The reply, as JSON, is null when all was made: \`b\`
 * keys that are not as expected, \`l\` lost leases, \`o\` outdated fan-outs, \`e\` the new epoch after the one before, \`t\`
 * the tokens of lines that were claimed at birth, where that is not all.
 */
export const STEPS_SQL = `
create or replace function steps(p_now bigint, p_elapsed bigint, p_id text, p_lease bigint,
  n_step int[], n_key text[], n_val text[],
  w_step int[], w_key text[], w_val text[],
  x_step int[], x_key text[],
  c_step int[], c_key text[], c_text text[],
  a_step int[], a_key text[],
  f_step int[], f_key text[], f_token text[], f_text text[], f_drops int[],
  y_step int[], y_key text[],
  e_step int[], e_key text[], e_text text[],
  d_step int[], d_key text[], d_sub text[], d_val text[], d_in bigint[], d_token text[], d_how int[],
  g_step int[], g_key text[], g_n bigint[], g_id text[],
  s_keys text[], s_msg text,
  out reply text, out soonest bigint)
language plpgsql @path as $$
declare
  n bigint; failed int[] := '{}'; bad_step int[] := '{}'; bad_key text[] := '{}'; lost int[]; outdated int[];
  more int[]; h record; busy text[] := '{}'; given text[]; births int := 0; epoch_text text;
  more_step int[]; more_key text[];
begin
  select t.n into n from time_now(p_now, p_elapsed) t;
  insert into done (id, at) values (p_id, n) on conflict do nothing;
  if not found then
    -- It writes, so that its own commit waits for what the first one may not have waited for.
    update done set at = n where id = p_id returning done.reply into reply;
    soonest := 0;
    return;
  end if;
  if cardinality(g_step) > 0 then
    perform pg_advisory_xact_lock_shared(${KEYS}, q.h) from (select distinct hashtext(a) h from unnest(g_key) a order by 1) q;
    select head.n, head.id into h from head;
    select array_agg(distinct g.step) into outdated from unnest(g_step, g_key, g_n, g_id) g(step, key, known, id)
      where (g.known <> h.n or g.id <> h.id) and (g.known >= h.n or g.known <= h.n - ${EPOCHS}
        or not exists (select 1 from epoch e where e.n = g.known and e.id = g.id)
        or exists (select 1 from moved m where m.key = g.key and m.n > g.known));
    failed := coalesce(outdated, '{}');
  end if;
  if s_keys is not null then
    perform pg_advisory_xact_lock(${KEYS}, q.h) from (select distinct hashtext(a) h from unnest(s_keys) a order by 1) q;
  end if;
  if cardinality(d_step) > 0 then ${filing("d_sub")} end if;

  if cardinality(c_step) > 0 then
    with asked as (select * from unnest(c_step, c_key, c_text) c(step, key, txt)),
    held as materialized (select kv.key, kv.value from kv where kv.key = any(c_key) order by kv.key for update)
    select array_agg(a.step), array_agg(a.key) into more_step, more_key from asked a left join held q on q.key = a.key
      where q.value is distinct from a.txt;
    if more_step is not null then bad_step := more_step; bad_key := more_key; failed := failed || more_step; end if;
  end if;
  if cardinality(a_step) > 0 then
    -- A ghost waits for whoever inserts the key at this moment, and lets nobody insert it before the end.
    with ghost as (insert into kv select distinct q.key, '' from unnest(a_key) q(key) order by 1 on conflict do nothing returning key)
    select array_agg(a.step), array_agg(a.key) into more_step, more_key from unnest(a_step, a_key) a(step, key)
      where not exists (select 1 from ghost where ghost.key = a.key);
    delete from kv where key = any(a_key) and not key = any(coalesce(more_key, '{}'));
    if more_step is not null then bad_step := bad_step || more_step; bad_key := bad_key || more_key; failed := failed || more_step; end if;
  end if;
  if cardinality(e_step) > 0 then
    with asked as (select * from unnest(e_step, e_key, e_text) c(step, key, txt)),
    held as materialized (select due.key, due.value from due where due.key = any(e_key) order by due.key for update)
    select array_agg(a.step), array_agg(a.key) into more_step, more_key from asked a left join held q on q.key = a.key
      where q.value is distinct from a.txt;
    if more_step is not null then bad_step := bad_step || more_step; bad_key := bad_key || more_key; failed := failed || more_step; end if;
  end if;

  if cardinality(f_step) > 0 then
    with asked as materialized (select * from unnest(f_step, f_key, f_token, f_text, f_drops) f(step, key, token, txt, drops)),
    gone as (
      delete from due using asked a
      where ${same("due.key", "a.key")} and a.drops = 1 and not a.step = any(failed) and (a.txt is null or due.value = a.txt)
        and case when a.token = '' then due.token is null or due.at <= n else due.token = a.token end
      returning a.step),
    ended as (
      update due set token = case when a.drops = 2 then due.token end, held = case when a.drops = 2 then due.held end,
        at = case when a.drops = 2 then due.at else coalesce(due.held, n) end
      from asked a where ${same("due.key", "a.key")} and a.drops <> 1 and not a.step = any(failed) and (a.txt is null or due.value = a.txt)
        and case when a.token = '' then due.token is null or due.at <= n else due.token = a.token end
      returning a.step)
    select array_agg(q.step) into more from (
      select a.step from asked a where not a.step = any(failed) except (select g.step from gone g union all select g.step from ended g)) q;
    if more is not null then
      -- Whose line is gone, or somebody else's: or it has another text, which is a conflict.
      for h in select f.step, f.key, f.token, f.txt, due.key is null as none, due.value,
          case when f.token = '' then due.token is null or due.at <= n else due.token = f.token end as ours
        from unnest(f_step, f_key, f_token, f_text) f(step, key, token, txt) left join due on due.key = f.key where f.step = any(more)
      loop
        if h.token = '' and h.none and h.txt is null then continue; end if;
        failed := failed || h.step;
        if h.token = '' and h.none or not h.none and h.ours then bad_step := bad_step || h.step; bad_key := bad_key || h.key;
        else lost := lost || h.step; end if;
      end loop;
    end if;
  end if;

  if cardinality(n_step) > 0 then
    -- A key that is there after all fails here (23505): that is a race, and half the work of looking first.
    insert into kv select q.key, q.val from unnest(n_step, n_key, n_val) q(step, key, val)
      where failed = '{}' or not q.step = any(failed) order by 1;
  end if;
  if cardinality(w_step) > 0 then
    insert into kv select q.key, q.val from unnest(w_step, w_key, w_val) q(step, key, val)
      where failed = '{}' or not q.step = any(failed) order by 1
    on conflict (key) do update set value = excluded.value;
  end if;
  if cardinality(x_step) > 0 then
    if failed = '{}' then delete from kv where key = any(x_key);
    else delete from kv where key = any(array(select q.key from unnest(x_step, x_key) q(step, key) where not q.step = any(failed))); end if;
  end if;
  if cardinality(y_step) > 0 then
    delete from due where key = any(array(select q.key from unnest(y_step, y_key) q(step, key) where failed = '{}' or not q.step = any(failed)));
  end if;

  if cardinality(d_step) > 0 then
    select count(*) into births from unnest(d_how) q where q = 1;
    if births > 0 then
      -- What waits or rests already goes first, or lasts.
      busy := array(select r.sub from ready r where r.sub = any(d_sub) and (r.pos < (n + 1) * 1000000 or r.pause > n or r.hold > n));
      if failed <> '{}' then
        select count(*) into births from unnest(d_step, d_how) q(step, how) where q.how = 1 and not q.step = any(failed);
      end if;
    end if;
    with line as materialized (
      select q.key, q.sub, q.val, least(n + q.inms, 8000000000000000) as at,
        case when q.how = 2 or q.how = 1 and not q.sub = any(busy) then q.token end as token
      from unnest(d_step, d_key, d_sub, d_val, d_in, d_token, d_how) q(step, key, sub, val, inms, token, how)
      where failed = '{}' or not q.step = any(failed)),
    put as (
      insert into due as t (key, sub, at, value, token, held)
      select l.key, l.sub, case when l.token is null then l.at else n + p_lease end, l.val, l.token, case when l.token is not null then l.at end
      from line l order by 1
      on conflict (key) do update set value = excluded.value, token = coalesce(t.token, excluded.token),
        at = case when t.token is null or t.token = excluded.token then excluded.at else t.at end,
        held = case when t.token is null or t.token = excluded.token then excluded.held else t.held end
      returning t.token),
    want as (select l.sub, min(case when l.token is null then l.at else n + p_lease end) at from line l group by 1),
    filed as (
      insert into ready (sub, pos) select w.sub, w.at * 1000000 from want w
      where w.at < 8000000000000000
        and not exists (select 1 from ready r where ${same("r.sub", "w.sub")} and r.pos < (greatest(w.at, n, r.pause, r.hold) + 1) * 1000000) order by 1
      on conflict (sub) do update set pos = least(ready.pos, greatest(excluded.pos, ready.pause * 1000000, ready.hold * 1000000))
      returning pos)
    select (select coalesce(array_agg(token), '{}') from put where starts_with(token, p_id || '.')), (select floor(min(pos) / 1000000)::bigint - n from filed)
      into given, soonest;
    if cardinality(given) = births then given := null; end if;
  end if;

  if s_msg is not null and failed = '{}' then
    update head set n = head.n + 1, id = p_id from (select head.n, head.id from head for update) b
      returning head.n, b.n as was, b.id into h;
    epoch_text := h.n || ' ' || p_id || ' ' || h.was || ' ' || h.id;
    insert into epoch values (h.n, p_id, s_msg);
    delete from epoch where epoch.n <= h.n - ${EPOCHS};
    delete from moved where moved.n <= h.n - ${EPOCHS};
    insert into moved select distinct a, h.n from unnest(s_keys) a order by 1 on conflict (key) do update set n = excluded.n;
    perform pg_notify(current_schema() || '_bell', 'e');
  end if;
  if failed <> '{}' or epoch_text is not null or given is not null then
    reply := jsonb_strip_nulls(jsonb_build_object(
      'b', (select jsonb_agg(jsonb_build_array(q.step, q.key)) from unnest(bad_step, bad_key) q(step, key)),
      'l', to_jsonb(lost), 'o', to_jsonb(outdated), 'e', epoch_text, 't', to_jsonb(given)))::text;
    update done set reply = steps.reply where id = p_id;
  end if;
end $$;

-- Says how a batch ended whose answer was lost. One that has not come yet is never made.
create or replace function outcome(p_now bigint, p_elapsed bigint, p_id text, out ended boolean, out reply text)
language plpgsql @path as $$
begin
  insert into done (id, at, reply) select p_id, t.n, '${NEVER}' from time_now(p_now, p_elapsed) t on conflict do nothing;
  ended := not found;
  if ended then
    -- It writes, so that its own commit waits for what the first one may not have waited for.
    update done set at = done.at where id = p_id returning done.reply into reply;
    -- Other steps of the batch have asked before, or this question was repeated.
    ended := found and reply is distinct from '${NEVER}';
  end if;
end $$;
`;
