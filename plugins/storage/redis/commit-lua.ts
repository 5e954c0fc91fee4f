/** The scripts of commits and ordered reads. */
import { inRedis } from "./lua.ts";

/**
 * Many steps in one call, each by itself. Arguments: now, the same on the node (so that a line is due equally soon here
 * and there, however wrong the node's clock is), then for each step its kind, its number of arguments, and those:
 *
 * - `commit`: id, its set, message for watchers, epoch that new events were fanned out at or empty, changes…
 * - `settle`: the same with sub, ordinal, token, line to keep and lease ms in place of the epoch
 * - `withdraw`: the same with sub, ordinal, line instead of the epoch; `{2}` when it is leased
 * - `extend`: sub, ordinal, token, lease ms
 *
 * Returns in how many ms a claim may find something earlier than it would have before, or -1; then for each step `{0,
 * epoch, the one before it}` (the last is missing where no watcher was notified here), `{1, keys that are not as
 * expected…}`, `{2}` for a lost lease, or `{3, epoch}` for events that were fanned out by old subscriptions. The epoch
 * counts commits that watchers are notified of: a sender compares it to learn whether its cache is still valid. A step
 * with an id that was made before is not made again.
 */
export const STEPS = inRedis(`
-- Each returns a refusal, or nil and where the changes begin.
local ready = {}

function ready.commit(at, last)
  if outdated(ARGV[at], at + 1, last) then return {3, epoch} end
  if not needsRoom(at + 1, last) then evenWhenFull() end
  return nil, at + 1
end

function ready.settle(at)
  if not leaseOf(ARGV[at], ARGV[at + 1], ARGV[at + 2]) then return {2} end
  evenWhenFull()
  return nil, at + 5
end

function ready.withdraw(at)
  local sub, ordinal, line = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if call('HEXISTS', P .. ':q:l:' .. sub, ordinal) == 1 then
    local score = tonumber(call('ZSCORE', P .. ':q:s:' .. sub, line) or nil)
    -- A lapsed one is as free as for a claim. One whose wait a silent holder kept is not due, so that it is filed again.
    if not score or score > now then return {2} end
    if not filedAgain(sub, ordinal, line) then endLease(sub, ordinal) end
  end
  evenWhenFull()
  return nil, at + 3
end

local function applySettled(at, from, last)
  local sub, ordinal, token, keep, term = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
  settling = sub .. ':' .. ordinal
  apply(from, last)
  settling = nil
  if keep == '' then return endLease(sub, ordinal) end
  -- The commit has filed it under its own time.
  lend(sub, ordinal, keep, token, now + term, tonumber(call('ZSCORE', P .. ':q:s:' .. sub, keep) or nil))
end

local function step(kind, at, last)
  if kind == 'extend' then
    if not renew(ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])) then return {2} end
    return {0, epochNow('any')}
  end
  local id, ids, message = ARGV[at], P .. ':c:' .. ARGV[at + 1], ARGV[at + 2]
  if call('SISMEMBER', ids, id) == 1 then return {0, epochNow(message)} end
  local refusal, from = ready[kind](at + 3, last)
  refusal = refusal or unmet(from, last)
  if refusal then return refusal end
  call('SADD', ids, id)
  -- Ids of a node are in sets of five seconds each. The first sets the expiry: one repeated late must make no set that stays.
  if call('SCARD', ids) == 1 then call('EXPIRE', ids, 30) end
  if kind == 'settle' then applySettled(at + 3, from, last) else apply(from, last) end
  return {0, tell(message, id)}
end

local replies = {-1}
shift = now - tonumber(ARGV[2])
local at = 3
while at <= #ARGV do
  local last = at + 1 + tonumber(ARGV[at + 1])
  replies[#replies + 1] = step(ARGV[at], at + 2, last)
  at = last + 1
end
wake()
replies[1] = wakeAt and math.max(0, wakeAt - now) or -1
return replies
`);

/**
 * now, prefix, from, to (as ZRANGEBYLEX has them), limit, reverse, most bytes → whether that is all, then the rest of
 * each key and its value in turn. The page ends when its values exceed the bytes; the first is always in it.
 */
export const RANGE = inRedis(`
local prefix, from, to, limit, reverse, most = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local index = P .. ':i:' .. prefix
local rests
if reverse == '1' then
  rests = call('ZREVRANGEBYLEX', index, to, from, 'LIMIT', 0, limit)
else
  rests = call('ZRANGEBYLEX', index, from, to, 'LIMIT', 0, limit)
end
local reply = {#rests < limit and 1 or 0}
local bytes = 0
for _, rest in ipairs(rests) do
  if bytes >= most then
    reply[1] = 0
    break
  end
  local value = call('GET', P .. ':r:' .. prefix .. rest)
  bytes = bytes + (value and #value or 0)
  reply[#reply + 1] = rest
  reply[#reply + 1] = value
end
return reply
`);

/** now, most bytes, key… → the values in turn, as many as the bytes allow; at least one. */
export const MANY = inRedis(`
local most, bytes, reply = tonumber(ARGV[2]), 0, {}
for i = 3, #ARGV do
  if bytes >= most then break end
  local value = call('GET', P .. ':r:' .. ARGV[i])
  bytes = bytes + (value and #value or 0)
  reply[#reply + 1] = value
end
return reply
`);
