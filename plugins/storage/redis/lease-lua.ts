/** Grants leases in Redis, renews them, and takes them back from a silent holder. A part of every script, put into `lua.ts`. */

export const LEASES = `
-- A lease is '<token> <line>', plus ' <due time>' where its line is not due yet (a held wait).
local function leaseOf(sub, ordinal, token)
  local lease = call('HGET', P .. ':q:l:' .. sub, ordinal)
  if not lease then return nil end
  local held, line = string.match(lease, '^(%S+) (%S+)')
  if held == token then return line end
end

local function lend(sub, ordinal, line, token, untilAt, dueAt)
  call('ZADD', P .. ':q:s:' .. sub, untilAt, line)
  local lease = token .. ' ' .. line
  if dueAt then lease = lease .. string.format(' %.0f', dueAt) end
  return call('HSET', P .. ':q:l:' .. sub, ordinal, lease)
end

local function renew(sub, ordinal, token, term)
  local line = leaseOf(sub, ordinal, token)
  if not line then return false end
  evenWhenFull()
  call('ZADD', P .. ':q:s:' .. sub, now + term, line)
  return true
end

-- Refiles a line that a silent node held for later: true when it is not due yet, and now waits for its time.
local function filedAgain(sub, ordinal, line)
  local lease = call('HGET', P .. ':q:l:' .. sub, ordinal)
  local dueAt = lease and tonumber(string.match(lease, '^%S+ %S+ (%d+)$') or nil)
  if not dueAt or dueAt <= now then return false end
  endLease(sub, ordinal)
  call('ZADD', P .. ':q:s:' .. sub, dueAt, line)
  return true
end
`;
