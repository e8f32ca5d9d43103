-- Takes the lock for an operator, if it is as it was read.
-- seen: '=' and the value of the lock's own key; '' for none. last: the last slot.
-- ends: when the pause ends. done: the same, as the last slot that counts as taken.
local owner, ends, seen, last, done = ARGV[1], ARGV[2] + 0, ARGV[3], ARGV[4], ARGV[5]

if (value and '=' .. value or '') ~= seen then
  return 'differs'
end
local kept = redis.call('GET', KEYS[2])
if not kept or kept == '' then
  kept = '- - - -\n'
end
local token, slot, rest = string.match(kept, '^([%d-]+) (%S+) %S+( %S+[^\n]*)\n')
if not token then
  return 'foreign'
end
if slot ~= last then
  return 'differs'
end
local slots = slot .. ' ' .. done .. rest

