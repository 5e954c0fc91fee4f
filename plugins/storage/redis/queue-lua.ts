/** The scripts of the queue. */
import { inRedis } from "./lua.ts";

/**
 * now, limit, most per subscription, lease ms, token, idle ms, (sub, busy)… → `{now, next time or -1, blocked subs,
 * epoch, (sub, line, value, token)…}`. Subscriptions take turns: one that was served goes to the end of the line.
 */
export const CLAIM = inRedis(`
local limit, most, term, token, longest = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local busy, full = {}, 0
for i = 7, #ARGV, 2 do
  busy[ARGV[i]] = tonumber(ARGV[i + 1])
  if busy[ARGV[i]] >= most then full = full + 1 end
end
local ready, later = P .. ':q:ready', P .. ':q:later'
evenWhenFull()
noteClock()
local turn = tonumber(call('GET', P .. ':q:turn') or 0)
local turnBefore = turn

for _, sub in ipairs(call('ZRANGEBYSCORE', later, '-inf', now, 'LIMIT', 0, 1000)) do
  call('ZREM', later, sub)
  call('HDEL', P .. ':q:pause', sub)
  call('HDEL', P .. ':q:hold', sub)
  turn = turn + 1
  call('ZADD', ready, turn, sub)
end

local leases, blocked = {}, {}
local left, fresh = limit, 0

local function serve(sub, share)
  local allowed = math.min(most - (busy[sub] or 0), share, left)
  if allowed <= 0 then return 0 end
  local lines = call('ZRANGEBYSCORE', P .. ':q:s:' .. sub, '-inf', now, 'LIMIT', 0, allowed)
  for i, line in ipairs(lines) do
    local ordinal = string.match(line, ':(.*)$')
    local value = call('GET', P .. ':r:due:' .. sub .. ':' .. line)
    if value and filedAgain(sub, ordinal, line) then
      -- Not due: the node that held it for later has gone silent.
      value = nil
    elseif value then
      local own = token .. '.' .. #leases
      fresh = fresh + lend(sub, ordinal, line, own, now + term)
      busy[sub] = (busy[sub] or 0) + 1
      left = left - 1
      leases[#leases + 1] = {sub, line, value, own}
    else
      call('ZREM', P .. ':q:s:' .. sub, line)
    end
  end
  return #lines
end

local open = {}
for _, sub in ipairs(call('ZRANGE', ready, 0, limit + full - 1)) do
  if (busy[sub] or 0) >= most then blocked[#blocked + 1] = sub else open[#open + 1] = sub end
end
local served = {}
local share = math.max(1, math.floor(limit / math.max(1, #open)))
for pass = 1, 2 do
  if left > 0 then
    for _, sub in ipairs(open) do
      if left <= 0 then break end
      serve(sub, pass == 1 and share or limit)
      served[sub] = true
    end
  end
end
for _, sub in ipairs(open) do
  if served[sub] then
    local head = call('ZRANGE', P .. ':q:s:' .. sub, 0, 0, 'WITHSCORES')
    if #head == 0 then
      call('ZREM', ready, sub)
    elseif tonumber(head[2]) > now then
      call('ZREM', ready, sub)
      call('ZADD', later, head[2], sub)
    else
      turn = turn + 1
      call('ZADD', ready, turn, sub)
      if (busy[sub] or 0) >= most then blocked[#blocked + 1] = sub end
    end
  end
end
if turn ~= turnBefore then call('SET', P .. ':q:turn', turn) end
if fresh > 0 then call('INCRBY', P .. ':q:leases', fresh) end

local nextAt = -1
if call('ZCARD', ready) > #blocked then
  nextAt = now
else
  local head = call('ZRANGE', later, 0, 0, 'WITHSCORES')
  if #head > 0 then nextAt = tonumber(head[2]) end
  if nextAt ~= now then
    local untilAt = now + longest
    if nextAt >= 0 and nextAt < untilAt then untilAt = nextAt end
    local idle = tonumber(call('GET', P .. ':q:idle') or 0)
    if untilAt > idle then call('SET', P .. ':q:idle', untilAt, 'PX', math.max(1, longest * 2)) end
  end
end
local reply = {now, nextAt, blocked, epochNow('any')}
for _, lease in ipairs(leases) do reply[#reply + 1] = lease end
return reply
`);

/** now, lease ms, (sub, ordinal, token)… */
export const RENEW = inRedis(`
for i = 3, #ARGV, 3 do renew(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[2])) end
`);

/** now, sub, ordinal, token, ms until it is due or empty. */
export const RELEASE = inRedis(`
local sub, ordinal, token, inMs = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local line = leaseOf(sub, ordinal, token)
if not line then return 0 end
endLease(sub, ordinal)
local at = inMs and now + inMs or math.min(now, tonumber(string.match(line, '^(%d+)')) + ahead)
call('ZADD', P .. ':q:s:' .. sub, at, line)
file(sub, at)
wake()
return 1
`);

/** now, sub, how many ms, `pause` or `hold`. */
export const PAUSE = inRedis(`
local sub, ms, ends = ARGV[2], tonumber(ARGV[3]), P .. ':q:' .. ARGV[4]
evenWhenFull()
if ms > 0 then call('HSET', ends, sub, now + ms) else call('HDEL', ends, sub) end
call('ZREM', P .. ':q:ready', sub)
call('ZREM', P .. ':q:later', sub)
local head = call('ZRANGE', P .. ':q:s:' .. sub, 0, 0, 'WITHSCORES')
if #head > 0 then file(sub, tonumber(head[2])) end
wake()
return 1
`);

/** now, sub, a text unique to this cancel. The stored due lines stay; every lease of them is lost when this returns. */
export const CANCEL = inRedis(`
local sub = ARGV[2]
evenWhenFull()
call('DECRBY', P .. ':q:leases', call('HLEN', P .. ':q:l:' .. sub))
call('DEL', P .. ':q:whole')
-- A sweep under way may have passed these lines already.
call('SET', P .. ':q:cancelled', ARGV[3])
call('UNLINK', P .. ':q:l:' .. sub, P .. ':q:s:' .. sub)
call('ZREM', P .. ':q:ready', sub)
call('ZREM', P .. ':q:later', sub)
call('HDEL', P .. ':q:pause', sub)
call('HDEL', P .. ':q:hold', sub)
return 1
`);

/**
 * now, line to start after, how many, the last cancel when the sweep began → `{how many were unknown, last line, or
 * empty at the end, the last cancel}`. Commits keep the queue complete: only after a cancel, which drops lines that are
 * still stored, there is something to search for. Only a sweep that has read every page, and met no cancel, makes it
 * complete again.
 */
export const SWEEP = inRedis(`
local after, page, began = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local cancelled = call('GET', P .. ':q:cancelled') or ''
if after == '' then
  if call('EXISTS', P .. ':q:whole') == 1 then return {0, '', ''} end
  began = cancelled
end
evenWhenFull()
local found, last = 0, ''
local rests = call('ZRANGEBYLEX', P .. ':i:due:', after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, page)
for _, rest in ipairs(rests) do
  last = rest
  local sub, line = parseDue(rest)
  if sub and not call('ZSCORE', P .. ':q:s:' .. sub, line) then
    queueAdd(rest, call('GET', P .. ':r:due:' .. rest))
    found = found + 1
  end
end
flush()
if #rests < page then
  if cancelled == began then call('SET', P .. ':q:whole', 1) end
  last = ''
end
wake()
return {found, last, began}
`);

/** now, sub… → how many lines they have, leased ones included. */
export const PENDING = inRedis(`
local lines = 0
for i = 2, #ARGV do lines = lines + call('ZCARD', P .. ':q:s:' .. ARGV[i]) end
return lines
`);

/** now → `{lines, leased, oldest due or -1}`; the oldest among the first hundred subscriptions that are due and not paused. */
export const DEPTH = inRedis(`
local leased = tonumber(call('GET', P .. ':q:leases') or 0)
local oldest = -1
local function older(sub)
  local head = call('ZRANGE', P .. ':q:s:' .. sub, 0, 0, 'WITHSCORES')
  if #head > 0 and tonumber(head[2]) <= now and (oldest < 0 or tonumber(head[2]) < oldest) then oldest = tonumber(head[2]) end
end
for _, sub in ipairs(call('ZRANGE', P .. ':q:ready', 0, 99)) do older(sub) end
for _, sub in ipairs(call('ZRANGEBYSCORE', P .. ':q:later', '-inf', now, 'LIMIT', 0, 100)) do older(sub) end
local held = call('HSCAN', P .. ':q:hold', 0, 'COUNT', 100)[2]
for i = 1, math.min(#held, 200), 2 do older(held[i]) end
return {call('ZCARD', P .. ':i:due:'), leased, oldest < 0 and oldest or oldest - ahead}
`);
