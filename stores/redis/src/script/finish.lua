-- Ends a lease that still runs.
-- acquired: when it began, should the hash have been deleted; done: the slot that is done;
-- pause: how long until a slot that failed may be tried again; confirm: '1' where replicas will be
-- waited for. '' where there is none.
local owner, released, at_least, acquired, done, pause, confirm = unpack(ARGV)

local named = holder()
if named ~= owner then
  -- Asked again, since an answer was lost: nobody took the lock meanwhile.
  if kept.owner == released and (not value or named == released) then
    if confirm ~= '' then
      keep({owner = released})
    end
    return answer('before')
  end
  return answer('lost')
end
local at = tonumber(kept.owner == owner and kept.at or acquired) or now
local free = at + at_least
if pause ~= '' then
  free = math.max(free, now + pause)
end
local till = expiry(free)
if free > now then
  set(at, released, till)
else
  redis.call('DEL', KEYS[1])
  till = now / 1000
end
local changes = {owner = released, at = text(at), ['until'] = text(till * 1000)}
if done ~= '' then
  changes.slot_done = done
  changes.slot_attempts = ''
end
keep(changes)
return answer('ended')
