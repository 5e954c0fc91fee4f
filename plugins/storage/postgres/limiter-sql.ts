/**
 * Decides the two-window rule inside PostgreSQL, on its clock: `decide`, `readWindow` and `giveBack` of
 * `core/model/windows.ts`, line by line. What is idle is deleted from time to time.
 */

/**
 * A state has nine numbers: sustained start and count, burst start and count, refused start and count, suspended until,
 * strikes, struck at. A take has nine too: sustained limit and ms, burst limit and ms, refusals (0: none), window, suspend,
 * most, forget. A result has ten: code, then remaining, reset and start (-1: not open) of both windows, wait, strikes, for.
 */
export const LIMITER_SQL = `
create or replace function window_of(n bigint, started bigint, taken bigint, most bigint, ms bigint) returns bigint[] language sql immutable as $$
  select case when taken = 0 or n >= started + ms then array[most, ms, -1] else array[greatest(0, most - taken), started + ms - n, started] end
$$;

create or replace function standing(n bigint, s bigint[], q bigint[]) returns bigint[] language sql immutable as $$
  select array[0] || window_of(n, s[1], s[2], q[1], q[2]) || window_of(n, s[3], s[4], q[3], q[4]) || array[0, 0, 0]::bigint[]
$$;

create or replace function refused(n bigint, s bigint[], q bigint[]) returns bigint[] language plpgsql immutable as $$
declare r bigint[] := standing(n, s, q); held bigint := greatest(0, s[7] - n); su bigint; bu bigint;
begin
  su := case when r[2] > 0 then 0 else r[3] end;
  bu := case when r[5] > 0 then 0 else r[6] end;
  r[1] := case when held > 0 then 1 when su > 0 then 2 else 3 end;
  r[8] := greatest(held, su, bu);
  return r;
end $$;

create or replace function take(p_now bigint, p_elapsed bigint, p_keys text[], p_nums bigint[]) returns text language plpgsql @path as $$
declare
  n bigint; i int; q bigint[]; s bigint[]; r bigint[]; su bigint; bu bigint; again bigint; for_ms bigint; any_refused boolean := false;
  befores bigint[] := '{}'; afters bigint[] := '{}'; results bigint[] := '{}'; replies jsonb := '[]'; until_ bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  insert into tally select distinct a, array[0, 0, 0, 0, 0, 0, 0, 0, 0]::bigint[], 0 from unnest(p_keys) a order by 1 on conflict do nothing;
  perform 1 from tally where key = any(p_keys) order by key for update;
  select t.n into n from time_now(p_now, p_elapsed) t;
  for i in 1..cardinality(p_keys) loop
    q := p_nums[i * 9 - 8 : i * 9];
    select state into s from tally where key = p_keys[i];
    befores := befores || s;
    su := case when n < s[1] + q[2] then s[2] else 0 end;
    bu := case when n < s[3] + q[4] then s[4] else 0 end;
    if n >= s[7] and su < q[1] and bu < q[3] then
      if su = 0 then s[1] := n; end if;
      if bu = 0 then s[3] := n; end if;
      s[2] := su + 1; s[4] := bu + 1;
      r := standing(n, s, q);
    elsif n < s[7] or q[5] = 0 then
      r := refused(n, s, q);
    else
      again := case when s[6] > 0 and n < s[5] + q[6] then s[6] + 1 else 1 end;
      if again = 1 then s[5] := n; end if;
      s[6] := again;
      if again < q[5] then
        r := refused(n, s, q);
      else
        s[8] := case when n < s[9] + q[9] then s[8] else 0 end + 1;
        for_ms := least(q[8], q[7] * power(2, least(s[8] - 1, 40)))::bigint;
        s[6] := 0; s[9] := n; s[7] := n + for_ms;
        r := refused(n, s, q);
        r[9] := s[8]; r[10] := for_ms;
      end if;
    end if;
    any_refused := any_refused or r[1] <> 0;
    afters := afters || s;
    results := results || r;
  end loop;
  for i in 1..cardinality(p_keys) loop
    q := p_nums[i * 9 - 8 : i * 9];
    r := results[i * 10 - 9 : i * 10];
    if any_refused and r[1] = 0 then
      -- It would have passed alone: it is not counted when another was refused.
      r := standing(n, befores[i * 9 - 8 : i * 9], q);
    else
      s := afters[i * 9 - 8 : i * 9];
      until_ := greatest(s[1] + q[2], s[3] + q[4], s[7], case when s[6] > 0 then s[5] + q[6] end, case when s[8] > 0 then s[9] + q[9] end);
      update tally set state = s, until = until_ where key = p_keys[i];
    end if;
    replies := replies || jsonb_build_array(to_jsonb(r));
  end loop;
  return replies::text;
end $$;

-- Four numbers each: sustained ms and start, burst ms and start.
create or replace function give_back(p_now bigint, p_elapsed bigint, p_keys text[], p_nums bigint[]) returns void language plpgsql @path as $$
declare n bigint; i int; q bigint[];
begin
  perform set_config('synchronous_commit', 'off', true);
  perform 1 from tally where key = any(p_keys) order by key for update;
  select t.n into n from time_now(p_now, p_elapsed) t;
  for i in 1..cardinality(p_keys) loop
    q := p_nums[i * 4 - 3 : i * 4];
    update tally set state[2] = greatest(0, state[2] - case when state[1] = q[2] and n < q[2] + q[1] then 1 else 0 end),
      state[4] = greatest(0, state[4] - case when state[3] = q[4] and n < q[4] + q[3] then 1 else 0 end) where key = p_keys[i];
  end loop;
end $$;
`;
