local won = 'won ' .. stamp .. '\n' .. kept
if confirm ~= '' and slot ~= '' then
  -- For undo.lua.
  won = won .. '\n' .. before
end
return won
