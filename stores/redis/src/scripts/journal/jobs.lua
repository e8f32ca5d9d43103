-- Returns jobs of a range of names: pairs of a name and the job.
local from, to, limit = ARGV[1], ARGV[2], ARGV[3]

local page = {}
for _, name in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], from, to, 'LIMIT', 0, limit)) do
  page[#page + 1] = name
  page[#page + 1] = redis.call('HGET', KEYS[3], name) or ''
end
return page
