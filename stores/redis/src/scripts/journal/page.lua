-- Returns runs or audit records, the latest first: pairs of an id and the record.
-- index, records: the numbers of the keys.
local index, records, from, to, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]

local page = {}
for _, member in ipairs(redis.call('ZREVRANGEBYLEX', KEYS[index], from, to, 'LIMIT', 0, limit)) do
  local id = id_of(member)
  page[#page + 1] = id
  page[#page + 1] = redis.call('HGET', KEYS[records], id) or ''
end
return page
