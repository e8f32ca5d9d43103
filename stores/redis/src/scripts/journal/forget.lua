-- Removes a job whose runs are removed. Returns 1 if there was one.
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[3], ARGV[1])
