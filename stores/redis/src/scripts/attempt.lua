-- Takes the lock, and the slot, if both are available.
-- not_after (ARGV[3]): the last instant at which a copy of this attempt may be granted.
-- most: the maximum number of attempts at a slot that must not be lost; '' for other slots.
-- confirm: '1' if replicas must confirm.
-- skip_from, skip_until: the slots that the requester takes as skipped by a pause; '' for none.
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

local last, done, made, more = string.match(slots, '^(%S+) (%S+) (%S+)(.*)$')
-- The slots that a pause has skipped. An interval that ends ahead of the clock belongs to a pause
-- that something else has ended.
local from, till, rest = string.match(more or '', '^ (%S+) (%S+)(.*)$')
local is_skipping = till and till ~= '-' and not less(stamp, till)

if slot ~= '' then
  local tolerance, most, previous = ARGV[5], ARGV[6], ARGV[7]
  local skip_from, skip_until = ARGV[9], ARGV[10]
  made = tonumber(made)

  -- The rules of `SlotState::refusal` for a lock that is free.
  local function refused()
    local must_be_done = made and last == slot
    if is_skipping and not must_be_done and less(from, slot) and not less(till, slot) then
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
    if open or previous == '' then
      return open
    end
    local is_as_assumed = (is_skipping and from or '') == skip_from and (is_skipping and till or '') == skip_until
    return less(last, previous) or not is_as_assumed
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
  last = slot
end
if last and from then
  local stays = is_skipping and (slot == '' or not less(till, slot))
  more = stays and ' ' .. from .. ' ' .. till .. rest or rest ~= '' and ' - -' .. rest or ''
end
if last then
  slots = last .. ' ' .. done .. ' ' .. made .. more
end

-- A late copy: the lease of this attempt was given back. An attempt that undo.lua gave back may be
-- repeated; its record has no acquisition time.
local function was(mark)
  return string.find(kept, ' ' .. owner .. mark, 1, true)
end
if kept and (was(' unlocked') or was(' freed')) and not string.find(kept, '\n- ', 1, true) then
  return 'over'
end
if now - ARGV[3] > 0 then
  return 'late ' .. stamp
end
local ends = now + ARGV[2]
