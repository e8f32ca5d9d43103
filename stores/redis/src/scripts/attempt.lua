-- Takes the lock, and the slot, if both are available.
-- not_after (ARGV[3]): the last instant at which a copy of this attempt may be granted.
-- most: the maximum number of attempts at a slot that must not be lost; '' for other slots.
-- confirm: '1' if replicas must confirm.
-- The arguments after not_after are missing if there is no slot and no confirmation.
local owner, slot, confirm = ARGV[1], ARGV[4] or '', ARGV[8] or ''

if value then
  if confirm ~= '' and holder == owner then
    -- Repeated, maybe over another connection: WAIT needs a write of this connection.
    kept = kept or '- - - -\n- - ' .. owner
    redis.call('SET', KEYS[2], kept)
  end
  return answer('taken')
end

local token, slots = '-', '- - -'
if kept then
  token, slots = string.match(kept, '^([%d-]+) ([^\n]+)\n')
  if not token then
    return answer('foreign')
  end
end
local before = slots

if slot ~= '' then
  local tolerance, most, previous = ARGV[5], ARGV[6], ARGV[7]
  local last, done, made, more = string.match(slots, '^(%S+) (%S+) (%S+)(.*)$')
  made = tonumber(made)

  -- The rules of `SlotState::refusal` for a lock that is free.
  local function refused()
    local must_be_done = made and last == slot
    if done ~= '-' and not must_be_done and not less(done, slot) then
      return true
    end
    if last == '-' then
      return false
    end
    if most == '' then
      return not less(last, slot)
    end
    local open = made and made < tonumber(most)
    if not less(last, slot) then
      return slot ~= last or not open
    end
    local is_gap = previous ~= '' and less(last, previous) and (done == '-' or less(done, previous))
    return open or is_gap
  end

  if tonumber(slot) > now + tolerance then
    return answer('ahead')
  end
  if not last then
    return answer('foreign')
  end
  if refused() then
    return answer('refused')
  end
  made = last == slot and made or 0
  made = most ~= '' and string.format('%d', made + 1) or '-'
  slots = slot .. ' ' .. done .. ' ' .. made .. more
end

-- A late copy: the lease of this attempt was given back. An attempt that undo.lua gave back may be
-- repeated; its record has no acquisition time.
if kept and string.find(kept, ' ' .. owner .. ' unlocked', 1, true) and not string.find(kept, '\n- ', 1, true) then
  return 'over'
end
if now - ARGV[3] > 0 then
  return 'late ' .. stamp
end
local ends = now + ARGV[2]
