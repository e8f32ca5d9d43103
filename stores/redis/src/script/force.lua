-- Frees the lock; only if its own key holds exactly this value, where one is expected.
local expected, released = unpack(ARGV)

if not value then
  return answer('free')
end
if expected ~= '' and value ~= expected then
  return answer('differs')
end
local before = answer('freed')
redis.call('DEL', KEYS[1])
local named = holder()
if named and named == kept.owner then
  if string.sub(named, -#released) ~= released then
    named = named .. released
  end
  keep({owner = named, ['until'] = text(now)})
end
return before
