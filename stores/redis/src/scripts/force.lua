-- Frees the lock if its own key still has the value that was read.
if value ~= ARGV[1] then
  return 'differs'
end
local kept = redis.call('GET', KEYS[2])
redis.call('DEL', KEYS[1])
local lasting, at, owner = string.match(kept or '', '^([^\n]+)\n(%S+) %S+ (%S+)')
if owner and (holder == owner or holder == owner .. ' unlocked') then
  redis.call('SET', KEYS[2], lasting .. '\n' .. at .. ' ' .. stamp .. ' ' .. owner .. ' unlocked')
end
return 'done'
