-- Takes the lock, and the slot, if both are available.
-- not_after (ARGV[3]): the last instant at which a copy of this attempt may be granted.
-- most: the maximum number of attempts at a slot that must not be lost; '' for other slots.
-- confirm: '1' if replicas must confirm.
-- The arguments after not_after are missing if there is no slot and no confirmation.
local owner, slot, confirm = ARGV[1], ARGV[4] or '', ARGV[8] or ''

if value then
  if confirm ~= '' and holder == owner then
    -- Repeated, maybe over another connection: WAIT needs a write of this connection.
    kept = kept or '- - - -\n- - ' .. owner
    redis.call('SET', KEYS[2], kept)
  end
  return answer('taken')
end

local token, slots = '-', '- - -'
if kept then
  token, slots = string.match(kept, '^([%d-]+) ([^\n]+)\n')
  if not token then
    return answer('foreign')
  end
end
local before = slots

if slot ~= '' then
  local tolerance, most, previous = ARGV[5], ARGV[6], ARGV[7]
  local last, done, made, more = string.match(slots, '^(%S+) (%S+) (%S+)(.*)$')
  made = tonumber(made)

  -- The rules of `SlotState::refusal` for a lock that is free.
  local function refused()
    if last == '-' then
      return false
    end
    if most == '' then
      return not less(last, slot)
    end
    local open = made and made < tonumber(most)
    if not less(last, slot) then
      return slot ~= last or not open
    end
    return open or (previous ~= '' and less(last, previous))
  end

  if tonumber(slot) > now + tolerance then
    return answer('ahead')
  end
  if not last then
    return answer('foreign')
  end
  if refused() then
    return answer('refused')
  end
  made = last == slot and made or 0
  made = most ~= '' and string.format('%d', made + 1) or '-'
  slots = slot .. ' ' .. done .. ' ' .. made .. more
end

-- A late copy: the lease of this attempt was given back. An attempt that undo.lua gave back may be
-- repeated; its record has no acquisition time.
if kept and string.find(kept, ' ' .. owner .. ' unlocked', 1, true) and not string.find(kept, '\n- ', 1, true) then
  return 'over'
end
if now - ARGV[3] > 0 then
  return 'late ' .. stamp
end

-- The current time as ShedLock writes it, truncated to milliseconds. Years start in March here, so
-- that a leap day is the last day of a year.
local floor = math.floor
local seconds = time[1] + 0
local day = floor(seconds / 86400) + 719468
local era = floor(day / 146097)
day = day - era * 146097
local year = floor((day - floor(day / 1460) + floor(day / 36524) - floor(day / 146096)) / 365)
day = day - (365 * year + floor(year / 4) - floor(year / 100))
local month = floor((5 * day + 2) / 153)
day = day - floor((153 * month + 2) / 5) + 1
month = month < 10 and month + 3 or month - 9
year = year + era * 400 + (month <= 2 and 1 or 0)
local added = string.format('ADDED:%04d-%02d-%02dT%02d:%02d:%02d.%03dZ@%s', year, month, day,
  floor(seconds / 3600) % 24, floor(seconds / 60) % 60, seconds % 60, floor(time[2] / 1000), owner)

if token == '-' or less(token, stamp) then
  token = stamp
else
  token = string.format('%.0f', token + 1)
end
local till = expiry(now + ARGV[2])
redis.call('SET', KEYS[1], added, 'PXAT', till)
kept = token .. ' ' .. slots .. '\n' .. stamp .. ' ' .. till .. '000 ' .. owner
redis.call('SET', KEYS[2], kept)
local won = 'won ' .. stamp .. '\n' .. kept
if confirm ~= '' and slot ~= '' then
  -- For undo.lua.
  won = won .. '\n' .. before
end
return won
