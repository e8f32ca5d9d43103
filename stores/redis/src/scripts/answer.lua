local kept = redis.call('GET', KEYS[2])
if kept == '' then
  kept = nil
end

-- Returns a word for the outcome and the state: the record as it is now, the remaining time of the
-- lock's own key, and its value as it was found.
local function answer(word)
  local left = value and redis.call('PTTL', KEYS[1]) or 0
  return {word .. ' ' .. stamp .. '\n' .. (kept or ''), left, value or ''}
end
