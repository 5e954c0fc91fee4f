/** The scripts of commits and ordered reading. */
import { inRedis } from "./lua.ts";

/**
 * now, commit id, its set, whether that is new, message for watchers, changes… → `{epoch}`, or the keys that are
 * not as expected. The epoch counts commits that watchers are told of; 0 when this is none.
 */
export const COMMIT = inRedis(`
local id, bucket, fresh, message = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if not needsRoom(6) then evenWhenFull() end
if not remember(id, bucket, fresh) then return {epochNow(message)} end
local wrong = unmet(6)
if #wrong > 0 then
  call('SREM', P .. ':c:' .. bucket, id)
  return wrong
end
apply(6)
wake()
return {tell(message)}
`);

/** As COMMIT with sub, ordinal, token, line to keep and lease ms before the changes; nil when the lease was lost. */
export const SETTLE = inRedis(`
local id, bucket, fresh, message = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local sub, ordinal, token, keep, term = ARGV[6], ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10])
if not leaseOf(sub, ordinal, token) then
  if call('SISMEMBER', P .. ':c:' .. bucket, id) == 1 then return {epochNow(message)} end
  return false
end
evenWhenFull()
if not remember(id, bucket, fresh) then return {epochNow(message)} end
local wrong = unmet(11)
if #wrong > 0 then
  call('SREM', P .. ':c:' .. bucket, id)
  return wrong
end
settling = sub .. ':' .. ordinal
apply(11)
if keep ~= '' then lend(sub, ordinal, keep, token, now + term) else endLease(sub, ordinal) end
wake()
return {tell(message)}
`);

/** now, shelf, from, to (as ZRANGEBYLEX has them), limit, reverse → rest of the key and value in turn. */
export const RANGE = inRedis(`
local shelf, from, to, limit, reverse = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local index = P .. ':i:' .. shelf
local rests
if reverse == '1' then
  rests = call('ZREVRANGEBYLEX', index, to, from, 'LIMIT', 0, limit)
else
  rests = call('ZRANGEBYLEX', index, from, to, 'LIMIT', 0, limit)
end
local reply = {}
for _, rest in ipairs(rests) do
  reply[#reply + 1] = rest
  reply[#reply + 1] = call('GET', P .. ':r:' .. shelf .. rest)
end
return reply
`);
