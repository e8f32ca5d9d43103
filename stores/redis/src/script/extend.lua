-- Moves the end of a lease that still runs.
local owner, at_most = unpack(ARGV)

if holder() ~= owner then
  return answer('lost')
end
local till = expiry(now + at_most)
redis.call('PEXPIREAT', KEYS[1], text(till))
keep({owner = owner, ['until'] = text(till * 1000)})
return answer('extended')
