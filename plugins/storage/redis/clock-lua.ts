/**
 * The clock of the scripts. It follows the server's clock, but continues when that is set back, and ignores when that
 * is set forwards: so every wait, lease and window in Redis keeps its length.
 */

/**
 * The start of every script. The first argument is two numbers or empty texts with a space between them: epoch ms, in
 * place of the server's own clock, and how many ms ago the caller had `:clock` written, by its monotonic clock. A
 * caller from ten seconds ago knows that no day has passed since.
 *
 * `:clock` holds the last reading of the server's clock, and how far `now` is ahead of it. Claims and signs of life
 * write it.
 */
export const CLOCK = `
local P = KEYS[1]
local call = redis.call
local said, elapsed = string.match(ARGV[1], '^(%d*) ?(%d*)$')
local server = tonumber(said)
if not server then local t = call('TIME'); server = t[1] * 1000 + math.floor(t[2] / 1000) end
local noted = call('GET', P .. ':clock')
local mark, before = string.match(noted or '', '^(%d+) (%-?%d+)$')
mark, before = tonumber(mark) or server, tonumber(before) or 0
local ahead = before
elapsed = tonumber(elapsed)
if server < mark then
  ahead = before + mark - server
elseif elapsed and server > mark + elapsed + 10000 then
  -- Some node gives a sign of life each second, so at most that may have passed since the last.
  ahead = before - (server - mark - math.min(elapsed, 1000))
end
local now = server + ahead

-- Call it only where a script may write although memory is full.
local function noteClock()
  if noted and ahead == before and server < mark + 250 then return end
  call('SET', P .. ':clock', string.format('%.0f %.0f', server, ahead))
end
`;

/** Computes when a due line may be claimed. Needs `now`, and `shift`: this clock less that of the line's writer. */
export const CLAIMABLE_AT = `
-- The longest wait that a policy may ask for, ms: for lines that do not state their wait.
local LONGEST = 95040000
local DIGITS = '0123456789abcdefghjkmnpqrstvwxyz'
local function ordinalTime(ordinal)
  local time = 0
  for i = 1, 10 do
    local digit = string.find(DIGITS, string.sub(ordinal, i, i), 1, true)
    if not digit then return nil end
    time = time * 32 + digit - 1
  end
  return time
end

-- A delivery without an attempt is due, whatever its time; any other waits no longer than its stated wait.
local function claimableAt(time, ordinal, value)
  local at = tonumber(time) + shift
  if at <= now then return at end
  local cycle, attempts, wait = string.match(value or '', '^%S+ %d+ (%d+) (%d+) ?(%d*)')
  if cycle == '0' and attempts == '0' and ordinalTime(ordinal) == tonumber(time) then return now end
  return math.min(at, now + (tonumber(wait) or LONGEST))
end
`;
