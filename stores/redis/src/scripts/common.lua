-- KEYS[1] is the lock's own key, as in ShedLock; KEYS[2] is our record next to it.
-- Instants and durations are whole microseconds below 2^53, so numbers are exact. Slots may be
-- larger, so they are compared as texts.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = time[1] .. string.sub('00000' .. time[2], -6)
local value = redis.call('GET', KEYS[1])
-- The owner: the text after 'ADDED:2026-01-01T00:00:00.000Z@'.
local holder = value and string.sub(value, 32)

-- The first whole millisecond at or after an instant, because an expiry has milliseconds. '%d' is
-- cheap, but has only 32 bits on some machines.
local function expiry(instant)
  local millis = math.ceil(instant / 1000)
  local rest = millis % 1000
  local seconds = (millis - rest) / 1000
  return string.format(seconds < 2147483648 and '%d%03d' or '%.0f%03d', seconds, rest)
end
