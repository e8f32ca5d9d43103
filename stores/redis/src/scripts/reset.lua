-- Sets the slots, if they are still those that were read: the words after the token.
local seen, slots = ARGV[1], ARGV[2]

local kept = redis.call('GET', KEYS[2])
local token, words, rest = string.match(kept or '', '^(%S+) ([^\n]*)(.*)$')
if words ~= seen then
  return 'differs'
end
redis.call('SET', KEYS[2], token .. ' ' .. slots .. rest)
return 'done'
