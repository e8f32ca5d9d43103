-- Moves the end of a running lease: later, never earlier.
local owner, at_most = ARGV[1], ARGV[2]

if holder ~= owner then
  return 'lost'
end
local till = expiry(now + at_most)
local kept = redis.call('GET', KEYS[2])
local before, at, last, named = string.match(kept or '', '^([^\n]+)\n(%S+) (%S+) (%S+)')
-- In milliseconds, like the key's expiry.
last = named == owner and string.match(last, '^(%d+)%d%d%d$')
if not last then
  local left = redis.call('PTTL', KEYS[1])
  last = left > 0 and expiry(now + left * 1000) or 0
end
if last - till > 0 then
  till = last
end
redis.call('PEXPIREAT', KEYS[1], till)
if named ~= owner then
  -- The record was deleted or overwritten.
  at = '-'
end
kept = (before or '- - - -') .. '\n' .. at .. ' ' .. till .. '000 ' .. owner
redis.call('SET', KEYS[2], kept)
return 'extended ' .. stamp .. '\n' .. kept
