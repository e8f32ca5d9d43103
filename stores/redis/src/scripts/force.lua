-- Frees the lock if its own key still has the value that was read.
-- done: the end of a pause that is over; missing if the slots stay as they are.
local seen, done = ARGV[1], ARGV[2]
if value ~= seen then
  return 'differs'
end
local kept = redis.call('GET', KEYS[2])
redis.call('DEL', KEYS[1])
local lasting, at, owner = string.match(kept or '', '^([^\n]+)\n(%S+) %S+ (%S+)')
-- A mark or a reason may follow the owner.
local is_own = owner and string.sub(holder .. ' ', 1, #owner + 1) == owner .. ' '
if done and not is_own then
  lasting, at, owner = '- - - -', '-', string.match(holder, '^%S+')
end
if done then
  lasting = string.gsub(lasting, '^(%S+ %S+) %S+', '%1 ' .. done)
end
if done or is_own then
  redis.call('SET', KEYS[2], lasting .. '\n' .. at .. ' ' .. stamp .. ' ' .. owner .. ' unlocked')
end
return 'done'
