-- Returns the time, and what fields of hashes contain, '' if nothing: the number of the key, the field and the value of
-- each. The id of a run is followed by the run.
local found = {}
local function read(key, field)
  local value = redis.call('HGET', KEYS[tonumber(key)], field) or ''
  found[#found + 1] = {key, field, value}
  return value
end

for i = 1, #ARGV, 2 do
  local value = read(ARGV[i], ARGV[i + 1])
  if ARGV[i] == '11' then
    read('5', value)
  end
end
local time = redis.call('TIME')
return {time[1] .. string.sub('00000' .. time[2], -6), found}
