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
local function made(message) return {0, epochNow(message)} end

local function carryOut(id, bucket, from, last)
  if not remember(id, bucket) then return 'again' end
  local wrong = unmet(from, last)
  if #wrong == 0 then
    apply(from, last)
    return nil
  end
  call('SREM', P .. ':c:' .. bucket, id)
  table.insert(wrong, 1, 1)
  return wrong
end

local function commit(at, last)
  local id, bucket, message = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if outdated(ARGV[at + 3], at + 4, last) then
    if call('SISMEMBER', P .. ':c:' .. bucket, id) == 1 then return made(message) end
    return {3, epoch}
  end
  if not needsRoom(at + 4, last) then evenWhenFull() end
  local failed = carryOut(id, bucket, at + 4, last)
  if failed == 'again' then return made(message) end
  return failed or {0, tell(message, id)}
end

local function settle(at, last)
  local id, bucket, message = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local sub, ordinal, token, keep, term = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6], tonumber(ARGV[at + 7])
  if not leaseOf(sub, ordinal, token) then
    if call('SISMEMBER', P .. ':c:' .. bucket, id) == 1 then return made(message) end
    return {2}
  end
  evenWhenFull()
  settling = sub .. ':' .. ordinal
  local failed = carryOut(id, bucket, at + 8, last)
  settling = nil
  if failed == 'again' then return made(message) end
  if failed then return failed end
  if keep ~= '' then
    -- The commit has filed it under its own time.
    lend(sub, ordinal, keep, token, now + term, tonumber(call('ZSCORE', P .. ':q:s:' .. sub, keep) or nil))
  else
    endLease(sub, ordinal)
  end
  return {0, tell(message, id)}
end

local function withdraw(at, last)
  local id, bucket, message = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local sub, ordinal, line = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  if call('HEXISTS', P .. ':q:l:' .. sub, ordinal) == 1 then
    if call('SISMEMBER', P .. ':c:' .. bucket, id) == 1 then return made(message) end
    local score = tonumber(call('ZSCORE', P .. ':q:s:' .. sub, line) or nil)
    -- A lapsed one is as free as for a claim. One whose wait a silent holder kept is not due, so that it is filed again.
    if not score or score > now then return {2} end
    if not filedAgain(sub, ordinal, line) then endLease(sub, ordinal) end
  end
  evenWhenFull()
  local failed = carryOut(id, bucket, at + 6, last)
  if failed == 'again' then return made(message) end
  return failed or {0, tell(message, id)}
end

local function extend(at)
  local sub, ordinal, token, term = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  if not renew(sub, ordinal, token, term) then return {2} end
  return {0, epochNow('any')}
end

local replies = {-1}
shift = now - tonumber(ARGV[2])
local at = 3
while at <= #ARGV do
  local kind, last = ARGV[at], at + 1 + tonumber(ARGV[at + 1])
  local step = kind == 'commit' and commit or kind == 'settle' and settle or kind == 'withdraw' and withdraw or extend
  replies[#replies + 1] = step(at + 2, last)
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
