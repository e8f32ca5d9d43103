-- Runs commands, unless what was read has changed. Returns whether it ran them.
-- ARGV: how many values were read, and of each the number of its key, its field and the value; then of each command its
-- name, the number of its key and its two arguments.
local last = 1 + 3 * ARGV[1]
for i = 2, last, 3 do
  if (redis.call('HGET', KEYS[tonumber(ARGV[i])], ARGV[i + 1]) or '') ~= ARGV[i + 2] then
    return 0
  end
end
for i = last + 1, #ARGV, 4 do
  redis.call(ARGV[i], KEYS[tonumber(ARGV[i + 1])], ARGV[i + 2], ARGV[i + 3])
end
return 1
