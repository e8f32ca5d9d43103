-- Sets the last slot that was taken: to this one, or, where it lies ahead, to now.
local target = ARGV[1]

local token, slot, done, rest = string.match(kept or '', '^(%S+) (%S+) (%S+) %S+(.*)$')
if kept and not slot then
  return answer('foreign')
end
if not slot or slot == '-' then
  return answer('none')
end
if target == '' then
  if not less(stamp, slot) then
    return answer('behind')
  end
  target = stamp
end
local before = answer('reset')
redis.call('SET', KEYS[2], token .. ' ' .. target .. ' ' .. done .. ' -' .. rest)
return before
