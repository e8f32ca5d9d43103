-- Takes the lock for an operator, if it is as it was read.
-- seen: '=' and the value of the lock's own key; '' for none. ends: when the pause ends.
-- words, slots: the slots as they were read, and with those that the pause skips.
local owner, ends, seen, words, slots = ARGV[1], ARGV[2] + 0, ARGV[3], ARGV[4], ARGV[5]

if (value and '=' .. value or '') ~= seen then
  return 'differs'
end
local kept = redis.call('GET', KEYS[2])
if not kept or kept == '' then
  kept = '- - - -\n'
end
local token, found = string.match(kept, '^([%d-]+) ([^\n]*)\n')
if not token then
  return 'foreign'
end
if found ~= words then
  return 'differs'
end

