-- Compares integers without leading zeros.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

