-- Gives back a won attempt as if it had never been made; only the token stays. The record gets no
-- acquisition time, so that the same owner may repeat the attempt.
-- before: the slots in the record before the attempt, if it took one; otherwise ''.
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
