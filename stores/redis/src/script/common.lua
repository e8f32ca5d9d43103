-- KEYS[1] is the lock's own key, as ShedLock has it; KEYS[2] the hash that we keep beside it.
-- Instants and durations are whole microseconds. They stay below 2^53, where numbers are exact;
-- slots may lie beyond, so slots are compared as texts.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local value = redis.call('GET', KEYS[1])
local fields = {'owner', 'at', 'until', 'token', 'slot', 'slot_done', 'slot_attempts'}
local kept = {}
for i, found in ipairs(redis.call('HMGET', KEYS[2], unpack(fields))) do
  kept[fields[i]] = found or ''
end

local function text(number)
  return string.format('%.0f', number)
end

-- Of whole numbers without leading zeros.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local function keep(changes)
  local arguments = {}
  for field, changed in pairs(changes) do
    kept[field] = changed
    arguments[#arguments + 1] = field
    arguments[#arguments + 1] = changed
  end
  redis.call('HSET', KEYS[2], unpack(arguments))
end

-- Who a value of the lock's own key names: what stands behind its first '@'.
local function holder()
  local from = value and string.find(value, '@', 1, true)
  return from and string.sub(value, from + 1)
end

-- The whole millisecond at or after an instant: what an expiry can express.
local function expiry(instant)
  return math.ceil(instant / 1000)
end

-- An instant as ShedLock writes it, cut to milliseconds. The calendar counts its years from March,
-- so that a leap day is the last of them.
local function calendar(instant)
  local millis = math.floor(instant / 1000)
  local seconds = math.floor(millis / 1000)
  local day = math.floor(seconds / 86400) + 719468
  local era = math.floor(day / 146097)
  day = day - era * 146097
  local year = math.floor(
    (day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  year = year + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, day,
    math.floor(seconds / 3600) % 24, math.floor(seconds / 60) % 60, seconds % 60, millis % 1000)
end

-- Sets the lock's own key as ShedLock would, until this millisecond.
local function set(at, owner, till)
  redis.call('SET', KEYS[1], 'ADDED:' .. calendar(at) .. '@' .. owner, 'PXAT', text(till))
end

-- A word for what was done, and all that is known: the lock's own key as it was found, the hash as
-- it is now.
local function answer(word)
  local left = value and redis.call('PTTL', KEYS[1]) or 0
  local known = {word, text(now), value or '', text(left)}
  for i, field in ipairs(fields) do
    known[4 + i] = kept[field]
  end
  return known
end
