-- Moves the end of a lease that still runs.
local owner, at_most = ARGV[1], ARGV[2]

if holder ~= owner then
  return 'lost'
end
local till = expiry(now + at_most)
redis.call('PEXPIREAT', KEYS[1], till)
local kept = redis.call('GET', KEYS[2])
local before, at, named = string.match(kept or '', '^([^\n]+)\n(%S+) %S+ (%S+)')
if named ~= owner then
  -- Somebody has deleted it, or written to it.
  at = '-'
end
kept = (before or '- - - -') .. '\n' .. at .. ' ' .. till .. '000 ' .. owner
redis.call('SET', KEYS[2], kept)
return 'extended ' .. stamp .. '\n' .. kept
