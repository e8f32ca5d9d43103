local kept = redis.call('GET', KEYS[2])
if kept == '' then
  kept = nil
end

-- Of whole numbers without leading zeros.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

-- A word for what was done, and all that is known: the record as it is now, what is left of the lock's
-- own key, and its value as it was found.
local function answer(word)
  local left = value and redis.call('PTTL', KEYS[1]) or 0
  return {word .. ' ' .. stamp .. '\n' .. (kept or ''), left, value or ''}
end
