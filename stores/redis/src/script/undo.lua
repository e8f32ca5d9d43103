-- Takes an attempt back that was won, as if it had never been; only the token stays.
-- claimed: '1' where it took a slot, and slot, attempts what was there before.
local owner, released, claimed, slot, attempts = unpack(ARGV)

if holder() ~= owner then
  return answer('lost')
end
redis.call('DEL', KEYS[1])
local changes = {owner = released, ['until'] = text(now)}
if claimed ~= '' then
  changes.slot = slot
  changes.slot_attempts = attempts
end
keep(changes)
return answer('undone')
