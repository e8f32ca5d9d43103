-- Ends a lease that still runs.
-- acquired: when it began, at_least: how long the lock stays taken from then on; done: the slot that is
-- done; pause: how long until a slot that failed may be tried again; confirm: '1' where replicas will
-- be waited for; given: the slot whose attempt is given back; before: the last slot where the slot itself
-- is given back. '' where there is none; what follows the owner is missing where all of it would be.
local owner, acquired, at_least, done, pause, confirm =
  ARGV[1], ARGV[2] or '', ARGV[3], ARGV[4] or '', ARGV[5] or '', ARGV[6] or ''
local given, before = ARGV[7] or '', ARGV[8] or ''
local mark = owner .. ' unlocked'

-- Nothing ran under a lease that gives its slot back. So it is ended where it has expired as well, as long as
-- nobody has taken the lock since.
local function expired_unused()
  local kept = before ~= '' and not value and redis.call('GET', KEYS[2])
  return kept and string.match(kept, '\n%S+ %S+ (%S+)$') == owner
end

if holder ~= owner and not expired_unused() then
  -- Asked again, since an answer was lost: nobody took the lock meanwhile.
  local kept = redis.call('GET', KEYS[2])
  if kept and string.find(kept, ' ' .. mark, 1, true) and (not value or holder == mark) then
    if confirm ~= '' then
      redis.call('SET', KEYS[2], kept)
    end
    return 'before'
  end
  return 'lost'
end

local free = now
if at_least then
  free = (tonumber(acquired) or now) + at_least
  if pause ~= '' then
    free = math.max(free, now + pause)
  end
end
local ended = stamp
if free > now then
  local till = expiry(free)
  redis.call('SET', KEYS[1], value .. ' unlocked', 'PXAT', till)
  ended = till .. '000'
else
  redis.call('DEL', KEYS[1])
end

-- The rules of `SlotState::ended`.
if given ~= '' then
  local kept = redis.call('GET', KEYS[2]) or ''
  local token, slot, was_done, made, more = string.match(kept, '^(%S+) (%S+) (%S+) (%S+)(.*)$')
  if slot == given then
    if tonumber(made) then
      made = string.format('%d', math.max(made - 1, 0))
    elseif before ~= '' and was_done ~= given then
      slot = before
    end
    redis.call('SET', KEYS[2], token .. ' ' .. slot .. ' ' .. was_done .. ' ' .. made .. more)
  end
end

if done == '' and redis.call('APPEND', KEYS[2], ' unlocked ' .. ended) > #ended + 10 then
  return 'ended'
end
-- The slot is done, or somebody has deleted the record.
local lasting = '- - - -'
if done ~= '' then
  local kept = redis.call('GET', KEYS[2]) or ''
  local token, slot, more = string.match(kept, '^(%S+) (%S+) %S+ %S+([^\n]*)\n')
  lasting = (token or '-') .. ' ' .. (slot or '-') .. ' ' .. done .. ' -' .. (more or '')
end
local at = acquired ~= '' and acquired or '-'
redis.call('SET', KEYS[2], lasting .. '\n' .. at .. ' ' .. ended .. ' ' .. mark)
return 'ended'
