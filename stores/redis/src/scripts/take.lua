-- Takes the lock for this owner until the instant `ends`. token, slots: as in the record before.
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
local till = expiry(ends)
redis.call('SET', KEYS[1], added, 'PXAT', till)
-- A pause has a reason after its owner.
kept = token .. ' ' .. slots .. '\n' .. stamp .. ' ' .. till .. '000 ' .. string.match(owner, '^%S+')
redis.call('SET', KEYS[2], kept)
