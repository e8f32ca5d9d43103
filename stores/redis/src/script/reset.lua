-- Sets the last slot that was taken: to this one, or, where it lies ahead, to now.
local target = ARGV[1]

if kept.slot == '' then
  return answer('none')
end
if target == '' then
  if not less(text(now), kept.slot) then
    return answer('behind')
  end
  target = text(now)
end
local before = answer('reset')
keep({slot = target, slot_attempts = ''})
return before
