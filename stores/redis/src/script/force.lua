-- Frees the lock; only if its own key holds exactly this value, where one is expected.
local expected = ARGV[1]

if not value then
  return answer('free')
end
if expected ~= '' and value ~= expected then
  return answer('differs')
end
local before = answer('freed')
redis.call('DEL', KEYS[1])
local lasting, at, owner = string.match(kept or '', '^([^\n]+)\n(%S+) %S+ (%S+)')
if owner and (holder == owner or holder == owner .. ' unlocked') then
  redis.call('SET', KEYS[2], lasting .. '\n' .. at .. ' ' .. stamp .. ' ' .. owner .. ' unlocked')
end
return before
