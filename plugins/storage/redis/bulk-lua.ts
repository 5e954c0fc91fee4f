/** Writes many rows of a large commit at once: a part of every script, put into `lua.ts`. */

export const MANY_ROWS = `
-- Puts many rows in few commands: most of the cost of a large commit is the way from Lua into Redis and back.
local function putMany(rows, groups, lines, soonest)
  call('MSET', unpack(rows))
  for group, entries in pairs(groups) do
    local index = P .. ':i:' .. group
    call('ZADD', index, unpack(entries))
    if not listed[group] then
      listed[group] = true
      call('ZADD', P .. ':shelves', 0, group)
    end
  end
  for sub, entries in pairs(lines) do
    if call('ZADD', P .. ':q:s:' .. sub, 'NX', unpack(entries)) > 0 then file(sub, soonest[sub]) end
  end
end

-- Rows per command; unpack() takes at most 8,000 values.
local MANY = 500

local function applyMany(from, last)
  local rows, groups, lines, soonest
  local function flush()
    if rows and #rows > 0 then putMany(rows, groups, lines, soonest) end
    rows, groups, lines, soonest = {}, {}, {}, {}
  end
  flush()
  for i = from, last, 5 do
    local op, key = ARGV[i], ARGV[i + 1]
    local group, rest = groupOf(key)
    if op == 'put' and group ~= 'subscription:' then
      rows[#rows + 1] = P .. ':r:' .. key
      rows[#rows + 1] = ARGV[i + 2]
      local entries = groups[group] or {}
      groups[group] = entries
      entries[#entries + 1] = 0
      entries[#entries + 1] = rest
      local sub, line, time, ordinal
      if group == 'due:' then sub, line, time, ordinal = parseDue(rest) end
      if sub then
        local at = claimableAt(time, ordinal, ARGV[i + 2])
        local own = lines[sub] or {}
        lines[sub] = own
        own[#own + 1] = at
        own[#own + 1] = line
        if not soonest[sub] or at < soonest[sub] then soonest[sub] = at end
      end
      if #rows >= MANY * 2 then flush() end
    elseif op ~= 'check' then
      -- In the order given: write what comes before it first.
      flush()
      if op == 'put' then put(key, ARGV[i + 2]) else remove(key) end
    end
  end
  flush()
end
`;
