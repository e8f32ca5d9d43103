-- Removes the first runs or audit records of a range, all but the last `keep`, at most `most`.
-- Returns how many, and the time.
-- index: the number of the key.
local index, from, to, keep, most = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local excess = math.min(redis.call('ZLEXCOUNT', KEYS[index], from, to) - keep, most)
local members = {}
if excess > 0 then
  members = redis.call('ZRANGEBYLEX', KEYS[index], from, to, 'LIMIT', 0, excess)
end
for _, member in ipairs(members) do
  local id = id_of(member)
  redis.call('ZREM', KEYS[index], member)
  if index == 9 then
    redis.call('HDEL', KEYS[10], id)
  else
    redis.call('ZREM', KEYS[4], id)
    redis.call('ZREM', KEYS[8], id)
    local text = redis.call('HGET', KEYS[5], id) or ''
    local job, name = string.match(text, '^[^\n]*\n([^\n]*)\n([^\n]*)\n')
    if job then
      redis.call('ZREM', KEYS[6], job .. '\n' .. id)
      redis.call('ZREM', KEYS[7], name .. '\n' .. id)
    end
    redis.call('HDEL', KEYS[5], id)
    redis.call('HDEL', KEYS[11], identity_of(id))
  end
end
local time = redis.call('TIME')
return {#members, time[1] .. string.sub('00000' .. time[2], -6)}
