-- Ends a running lease.
-- acquired: the start of the lease; at_least: how long the lock stays taken from then on.
-- done: the slot that is done; pause: how long until a failed slot may be tried again.
-- confirm: '1' if replicas must confirm.
-- given: the slot whose attempt is given back; before: the new last slot, if the slot itself is
-- given back.
-- '' stands for none. The arguments after the owner are missing if none of them is needed.
local owner, acquired, at_least, done, pause, confirm =
  ARGV[1], ARGV[2] or '', ARGV[3], ARGV[4] or '', ARGV[5] or '', ARGV[6] or ''
local given, before = ARGV[7] or '', ARGV[8] or ''
local mark = owner .. ' unlocked'

if holder ~= owner then
  local kept = redis.call('GET', KEYS[2])
  -- Nothing ran under a lease that gives its slot back. So it may also end after it has expired, if the
  -- lock has not been taken since.
  local is_unused = before ~= '' and not value and kept and string.match(kept, '\n%S+ %S+ (%S+)$') == owner
  if not is_unused then
    -- Repeated after a lost reply: the lock has not been taken meanwhile.
    if kept and string.find(kept, ' ' .. mark, 1, true) and (not value or holder == mark) then
      if confirm ~= '' then
        redis.call('SET', KEYS[2], kept)
      end
      return 'before'
    end
    return 'lost'
  end
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
  -- A server that is full refuses SET, unless the script has written before.
  redis.call('PEXPIREAT', KEYS[1], till)
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
-- The slot is done, or the record was deleted.
local lasting = '- - - -'
if done ~= '' then
  local kept = redis.call('GET', KEYS[2]) or ''
  local token, slot, was_done, more = string.match(kept, '^(%S+) (%S+) (%S+) %S+([^\n]*)\n')
  -- It moves only forwards.
  if was_done and (#done < #was_done or #done == #was_done and done < was_done) then
    done = was_done
  end
  lasting = (token or '-') .. ' ' .. (slot or '-') .. ' ' .. done .. ' -' .. (more or '')
end
local at = acquired ~= '' and acquired or '-'
redis.call('SET', KEYS[2], lasting .. '\n' .. at .. ' ' .. ended .. ' ' .. mark)
return 'ended'
