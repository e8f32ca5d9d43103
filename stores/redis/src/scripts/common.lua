-- KEYS[1] is the lock's own key, as ShedLock has it; KEYS[2] the record that we keep beside it.
-- Instants and durations are whole microseconds. They stay below 2^53, where numbers are exact;
-- slots may lie beyond, so slots are compared as texts.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = time[1] .. string.sub('00000' .. time[2], -6)
local value = redis.call('GET', KEYS[1])
-- Who it names: what stands behind 'ADDED:2026-01-01T00:00:00.000Z@'.
local holder = value and string.sub(value, 32)

-- The whole millisecond at or after an instant, which is what an expiry can express. '%d' is cheap, and
-- on some machines as wide as 32 bits.
local function expiry(instant)
  local millis = math.ceil(instant / 1000)
  local rest = millis % 1000
  local seconds = (millis - rest) / 1000
  return string.format(seconds < 2147483648 and '%d%03d' or '%.0f%03d', seconds, rest)
end
