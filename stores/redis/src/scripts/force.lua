-- Ends the lease if the lock's own key still has the value that was read.
-- mark: what follows the owner then. ends: until when the lock stays taken.
-- slots: the words after the token; missing if they stay as they are.
local seen, mark, ends, slots = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4]
if value ~= seen then
  return 'differs'
end
local kept = redis.call('GET', KEYS[2])
local lasting, at, owner = string.match(kept or '', '^([^\n]+)\n(%S+) %S+ (%S+)')
-- A mark or a reason may follow the owner.
local is_own = owner and string.sub(holder .. ' ', 1, #owner + 1) == owner .. ' '
if slots and not is_own then
  lasting, at, owner = '-', '-', string.match(holder, '^%S+')
end
if slots then
  lasting = string.match(lasting, '^%S+') .. ' ' .. slots
end
local ended = stamp
if ends > now then
  local till = expiry(ends)
  -- As in finish.lua.
  redis.call('PEXPIREAT', KEYS[1], till)
  redis.call('SET', KEYS[1], string.sub(value, 1, 31) .. owner .. mark, 'PXAT', till)
  ended = till .. '000'
else
  redis.call('DEL', KEYS[1])
end
if slots or is_own then
  redis.call('SET', KEYS[2], lasting .. '\n' .. at .. ' ' .. ended .. ' ' .. owner .. mark)
end
return 'done'
