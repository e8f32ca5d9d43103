-- Takes the lock, and the slot, if both are to be had.
-- most: how many attempts a slot that must not be lost may have; '' for other slots.
-- confirm: '1' where replicas will be waited for.
local owner, at_most, slot, tolerance, most, previous, confirm = unpack(ARGV)

if value then
  if confirm ~= '' and holder() == owner then
    -- Asked again, maybe by another connection: something of its own that replicas can confirm.
    keep({owner = owner})
  end
  return answer('taken')
end

-- The rules of `SlotState::refusal` for a lock that is free.
local function refused()
  local last, made = kept.slot, tonumber(kept.slot_attempts)
  if last == '' then
    return false
  end
  if most == '' then
    return not less(last, slot)
  end
  local open = made and made < tonumber(most)
  if not less(last, slot) then
    return slot ~= last or not open
  end
  return open or (previous ~= '' and less(last, previous))
end

if slot ~= '' then
  if tonumber(slot) > now + tolerance then
    return answer('ahead')
  end
  if refused() then
    return answer('refused')
  end
end

local token = text(now)
if kept.token ~= '' and not less(kept.token, token) then
  token = text(kept.token + 1)
end
local till = expiry(now + at_most)
set(now, owner, till)
local before = {kept.slot, kept.slot_attempts}
local changes = {owner = owner, at = text(now), ['until'] = text(till * 1000), token = token}
if slot ~= '' then
  local made = kept.slot == slot and tonumber(kept.slot_attempts) or 0
  changes.slot = slot
  changes.slot_attempts = most ~= '' and text(made + 1) or ''
end
keep(changes)
local won = answer('won')
if confirm ~= '' and slot ~= '' then
  -- For undo.lua.
  won[#won + 1] = before[1]
  won[#won + 1] = before[2]
end
return won
