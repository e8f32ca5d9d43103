-- Removes the record of a free lock, if it is as it was read.
if redis.call('PTTL', KEYS[1]) ~= -2 or redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 'differs'
end
redis.call('DEL', KEYS[2])
return 'done'
