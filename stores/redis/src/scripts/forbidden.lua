-- Returns the commands that this user may not run on the key in the first argument. Redis 6.2 does not report it.
local forbidden = {}
for index = 2, #ARGV do
  if redis.acl_check_cmd and not redis.acl_check_cmd(ARGV[index], ARGV[1]) then
    forbidden[#forbidden + 1] = ARGV[index]
  end
end
return forbidden
