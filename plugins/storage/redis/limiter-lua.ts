/**
 * Decides the two-window rule inside Redis, on the server's clock: `decide`, `readWindow` and `giveBack` of
 * `core/model/windows.ts`, line by line. Idle entries expire by themselves, and where there are too many callers, those that
 * are idle soonest go before that.
 */
import { CLOCK } from "./clock-lua.ts";
import { script } from "./script.ts";

/** Callers that are held at most, each for one endpoint. */
export const CALLERS = 100_000;
/** Callers that are forgotten together. */
const FORGOTTEN = 100;

const COMMON = `${CLOCK}
-- Callers by the time at which they are idle: those that may be forgotten, and those that are full or suspended.
local FREE, BOUND = P .. ':callers', P .. ':callers:bound'
-- The shared entry for new callers while all that are held are full or suspended.
local CROWD = '\\0crowd'

local NAMES = {'sustainedStart', 'sustainedCount', 'burstStart', 'burstCount', 'refusedStart', 'refusedCount', 'suspendedUntil', 'strikes', 'struckAt'}

local function load(key)
  local tally = {}
  local text = redis.call('GET', P .. ':n:' .. key)
  local i = 0
  if text then for number in string.gmatch(text, '%S+') do i = i + 1; tally[NAMES[i]] = tonumber(number) end end
  for _, name in ipairs(NAMES) do tally[name] = tally[name] or 0 end
  return tally
end

-- A caller that frees memory must pass the limiter: Redis allows this as a first write even without memory.
redis.call('UNLINK', P .. ':none')

local function store(key, tally, keepMs)
  local numbers = {}
  for i, name in ipairs(NAMES) do numbers[i] = string.format('%.0f', tally[name]) end
  redis.call('SET', P .. ':n:' .. key, table.concat(numbers, ' '), 'PX', string.format('%.0f', math.max(1, keepMs)))
end
`;

/**
 * now, most callers, then ten arguments per take: key, sustained limit and ms, burst limit and ms, refusals (0: none), window,
 * suspend, most, forget.
 */
export const TAKE = script(`${COMMON}
local most = tonumber(ARGV[2])

local function used(start, count, windowMs)
  if now < start + windowMs then return count end
  return 0
end

local function window(start, count, limit, windowMs)
  local taken = used(start, count, windowMs)
  if taken == 0 then return limit, windowMs, -1 end
  return math.max(0, limit - taken), start + windowMs - now, start
end

local function standing(tally, take)
  local sRemaining, sReset, sStart = window(tally.sustainedStart, tally.sustainedCount, take.sLimit, take.sMs)
  local bRemaining, bReset, bStart = window(tally.burstStart, tally.burstCount, take.bLimit, take.bMs)
  return {0, sRemaining, sReset, sStart, bRemaining, bReset, bStart, 0, 0, 0}
end

local function refuse(tally, take)
  local taken = standing(tally, take)
  local suspended = math.max(0, tally.suspendedUntil - now)
  local sustained = taken[2] > 0 and 0 or taken[3]
  local burst = taken[5] > 0 and 0 or taken[6]
  taken[1] = suspended > 0 and 1 or sustained > 0 and 2 or 3
  taken[8] = math.max(suspended, sustained, burst)
  return taken
end

local function copy(tally)
  local made = {}
  for name, value in pairs(tally) do made[name] = value end
  return made
end

local function decide(before, take)
  local suspended = now < before.suspendedUntil
  local sustained = used(before.sustainedStart, before.sustainedCount, take.sMs)
  local burst = used(before.burstStart, before.burstCount, take.bMs)
  if not suspended and sustained < take.sLimit and burst < take.bLimit then
    local after = copy(before)
    if sustained == 0 then after.sustainedStart = now end
    after.sustainedCount = sustained + 1
    if burst == 0 then after.burstStart = now end
    after.burstCount = burst + 1
    return after, standing(after, take)
  end
  if suspended or take.refusals == 0 then return before, refuse(before, take) end
  local open = before.refusedCount > 0 and now < before.refusedStart + take.aMs
  local after = copy(before)
  after.refusedCount = open and before.refusedCount + 1 or 1
  after.refusedStart = open and before.refusedStart or now
  if after.refusedCount < take.refusals then return after, refuse(after, take) end
  after.strikes = (now < before.struckAt + take.forgetMs and before.strikes or 0) + 1
  local forMs = math.min(take.maxMs, take.suspendMs * 2 ^ (after.strikes - 1))
  after.refusedCount = 0
  after.struckAt = now
  after.suspendedUntil = now + forMs
  local taken = refuse(after, take)
  taken[9] = after.strikes
  taken[10] = forMs
  return after, taken
end

local function keep(tally, take)
  local until_ = math.max(tally.sustainedStart + take.sMs, tally.burstStart + take.bMs, tally.suspendedUntil)
  if tally.refusedCount > 0 then until_ = math.max(until_, tally.refusedStart + take.aMs) end
  if tally.strikes > 0 then until_ = math.max(until_, tally.struckAt + take.forgetMs) end
  store(take.key, tally, until_ - now)
  if take.key == CROWD then return end
  local full = used(tally.sustainedStart, tally.sustainedCount, take.sMs) >= take.sLimit
    or used(tally.burstStart, tally.burstCount, take.bMs) >= take.bLimit
  local bound = full or now < tally.suspendedUntil
  redis.call('ZADD', bound and BOUND or FREE, until_, take.key)
  redis.call('ZREM', bound and FREE or BOUND, take.key)
end

-- Its own entry, or the shared one when there is no room.
local function place(key)
  if redis.call('EXISTS', P .. ':n:' .. key) == 1 then return key end
  redis.call('ZREMRANGEBYSCORE', FREE, '-inf', now)
  redis.call('ZREMRANGEBYSCORE', BOUND, '-inf', now)
  if redis.call('ZCARD', FREE) + redis.call('ZCARD', BOUND) < most then return key end
  local idle = redis.call('ZRANGE', FREE, 0, ${FORGOTTEN - 1})
  if #idle == 0 then return CROWD end
  for _, one in ipairs(idle) do
    redis.call('UNLINK', P .. ':n:' .. one)
    redis.call('ZREM', FREE, one)
  end
  return key
end

local takes, before, after, taken, refused = {}, {}, {}, {}, false
for i = 3, #ARGV, 10 do
  local n = #takes + 1
  takes[n] = {
    key = place(ARGV[i]), sLimit = tonumber(ARGV[i + 1]), sMs = tonumber(ARGV[i + 2]), bLimit = tonumber(ARGV[i + 3]), bMs = tonumber(ARGV[i + 4]),
    refusals = tonumber(ARGV[i + 5]), aMs = tonumber(ARGV[i + 6]), suspendMs = tonumber(ARGV[i + 7]), maxMs = tonumber(ARGV[i + 8]), forgetMs = tonumber(ARGV[i + 9]),
  }
  -- One caller's abuse would suspend all the others.
  if takes[n].key == CROWD then takes[n].refusals = 0 end
  before[n] = load(takes[n].key)
  after[n], taken[n] = decide(before[n], takes[n])
  if taken[n][1] ~= 0 then refused = true end
end
for n, take in ipairs(takes) do
  -- A take that would have passed alone is not counted when another take was refused.
  if refused and taken[n][1] == 0 then taken[n] = standing(before[n], take) else keep(after[n], take) end
end
return taken
`);

/** now, then five arguments per take: key, sustained ms and start, burst ms and start (-1: not open). */
export const GIVE_BACK = script(`${COMMON}
for i = 2, #ARGV, 5 do
  local key, ttl = ARGV[i], redis.call('PTTL', P .. ':n:' .. ARGV[i])
  if ttl <= 0 then key, ttl = CROWD, redis.call('PTTL', P .. ':n:' .. CROWD) end
  if ttl > 0 then
    local tally = load(key)
    local sMs, sStart, bMs, bStart = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
    if sStart == tally.sustainedStart and now < sStart + sMs then tally.sustainedCount = math.max(0, tally.sustainedCount - 1) end
    if bStart == tally.burstStart and now < bStart + bMs then tally.burstCount = math.max(0, tally.burstCount - 1) end
    store(key, tally, ttl)
  end
end
return 1
`);
