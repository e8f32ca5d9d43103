-- Sets the last slot that was taken, if it is still the one that was read.
local target, seen = ARGV[1], ARGV[2]

local kept = redis.call('GET', KEYS[2])
local token, slot, done, rest = string.match(kept or '', '^(%S+) (%S+) (%S+) %S+(.*)$')
if slot ~= seen then
  return 'differs'
end
redis.call('SET', KEYS[2], token .. ' ' .. target .. ' ' .. done .. ' -' .. rest)
return 'done'
