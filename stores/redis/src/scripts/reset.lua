-- Sets the last slot that was taken, and the last one done, if the former is still the one that was read.
local target, done, seen = ARGV[1], ARGV[2], ARGV[3]

local kept = redis.call('GET', KEYS[2])
local token, slot, rest = string.match(kept or '', '^(%S+) (%S+) %S+ %S+(.*)$')
if slot ~= seen then
  return 'differs'
end
redis.call('SET', KEYS[2], token .. ' ' .. target .. ' ' .. done .. ' -' .. rest)
return 'done'
