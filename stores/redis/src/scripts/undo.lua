-- Takes an attempt back that was won, as if it had never been; only the token stays. The record names
-- no beginning, so that the same owner may ask again.
-- before: what the record said of slots before, where the attempt took one; else ''.
local owner, before = ARGV[1], ARGV[2]

if holder ~= owner then
  return 'lost'
end
local kept = redis.call('GET', KEYS[2]) or '- - - -\n- - ' .. owner
local token, slots = string.match(kept, '^(%S+) ([^\n]+)\n')
redis.call('DEL', KEYS[1])
if before ~= '' then
  slots = before
end
kept = token .. ' ' .. slots .. '\n- ' .. stamp .. ' ' .. owner .. ' unlocked'
redis.call('SET', KEYS[2], kept)
return 'undone'
