-- KEYS: 1 the version; 2 the names of jobs; 3 jobs by name; 4 the ids of runs; 5 runs by id;
-- 6 and 7 the ids of runs after the job and the lock's name; 8 the ids of runs without an end;
-- 9 the ids of audit records; 10 audit records by id; 11 the ids of runs by their identity; 12 the identity of the journal.
if not redis.call('GET', KEYS[1]) then
  return 'none'
end

-- The id in a member of any of the sorted sets.
local function id_of(member)
  return string.match(member, '[^\n]*$')
end

-- What identifies the run with this id, whatever its start.
local function identity_of(id)
  return string.match(id, '[^-]*$')
end

