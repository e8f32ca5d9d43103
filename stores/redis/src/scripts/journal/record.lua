-- Records entries, each a kind and its arguments. Repeating them changes nothing.
local time = redis.call('TIME')
local stamp = time[1] .. string.sub('00000' .. time[2], -6)

-- A missing value, '-', is less than any number.
local function later(a, b)
  return less(a, b) and b or a
end

-- The words of a job, which are numbered as in the wire format, and its texts: schedule, zone, error, the lock's name
-- and the owner of the last run, and the schedule and zone that another host had registered.
local function read(name)
  local text = redis.call('HGET', KEYS[3], name)
  if not text then
    redis.call('ZADD', KEYS[2], 0, name)
    text = stamp .. ' - - - - - - - - - - - - - - -\n\n\n\n\n\n\n'
  end
  local words, texts = {}, {}
  local line, rest = string.match(text, '^([^\n]*)(.*)$')
  for word in string.gmatch(line, '%S+') do
    words[#words + 1] = word
  end
  -- Earlier releases wrote fewer of them.
  for i = #words + 1, 21 do
    words[i] = '-'
  end
  for it in string.gmatch(rest, '\n([^\n]*)') do
    texts[#texts + 1] = it
  end
  return words, texts
end

local function write(name, words, texts)
  local text = table.concat(words, ' ') .. '\n' .. table.concat(texts, '\n')
  redis.call('HSET', KEYS[3], name, text)
end

local function move(words, slot, deadline)
  if less(words[9], deadline) then
    words[8], words[9] = slot, deadline
  end
end

-- Whether an end replaces what is known: nothing, or a success of which the unlock found that the lease had been lost
-- before, or may have been.
local function replaces(known, outcome)
  return known == '-' or (known == 'succeeded' and (outcome == 'lost' or outcome == 'maybe_overlapped'))
end

local record = {}

function record.job(name, at_most, schedule, zone, slot, deadline, by, other_by, other_at, other_at_most,
                    other_schedule, other_zone)
  local words, texts = read(name)
  if schedule ~= texts[1] or zone ~= texts[2] then
    words[1], words[8], words[9] = stamp, '-', '-'
  end
  words[2], texts[1], texts[2] = at_most, schedule, zone
  words[13], words[14], words[15], words[16] = by, other_by, other_at, other_at_most
  texts[6], texts[7] = other_schedule, other_zone
  move(words, slot, deadline)
  write(name, words, texts)
end

-- of_job, of_name: the members of the sorted sets; of_name is '' if the lock is named like the job.
function record.run(id, text, job, of_job, of_name, name, owner, at_most, of_slot, outcome, started, ended, took, line,
                    slot, deadline, lock_store, host)
  local words, texts = read(job)
  local is_ours = outcome ~= 'elsewhere'
  if not is_ours then
    -- Not a run of ours: ShedLock took the slot.
    move(words, slot, deadline)
    if less(words[17], of_slot) and less(words[3], started) then
      words[17], words[18], words[20] = of_slot, started, host
      words[19] = words[19] == '-' and '1' or tostring(tonumber(words[19]) + 1)
    end
  elseif less(words[3], started) then
    words[3], words[10], words[11], words[6] = started, at_most, of_slot, '-'
    words[12] = lock_store
    texts[4], texts[5] = name, owner
  end
  if is_ours and outcome ~= '-' then
    local has_succeeded = outcome == 'succeeded'
    local has_failed = outcome == 'failed' or outcome == 'lost' or outcome == 'panicked'
    if (has_succeeded or has_failed) and words[18] ~= '-' and less(words[18], started) then
      words[17], words[18], words[19], words[20] = '-', '-', '-', '-'
    end
    if texts[4] == name and texts[5] == owner and replaces(words[6], outcome) then
      words[6] = outcome
    end
    if has_succeeded then
      words[7] = less(ended, words[4]) and words[7] or took
      words[4] = later(words[4], ended)
      move(words, slot, deadline)
    end
    if has_failed then
      texts[3] = less(ended, words[5]) and texts[3] or line
      words[5] = later(words[5], ended)
    end
  end
  write(job, words, texts)

  -- Another process may have recorded it with another start.
  local identity = identity_of(id)
  local known = redis.call('HGET', KEYS[11], identity)
  local kept = known and redis.call('HGET', KEYS[5], known)
  if not kept then
    redis.call('HSET', KEYS[11], identity, id)
    redis.call('ZADD', KEYS[4], 0, id)
    redis.call('ZADD', KEYS[6], 0, of_job)
    if of_name ~= '' then
      redis.call('ZADD', KEYS[7], 0, of_name)
    end
    redis.call('ZADD', KEYS[8], 0, id)
    redis.call('HSET', KEYS[5], id, text)
    known, kept = id, '- ' .. started
  end
  local was, start = string.match(kept, '^(%S+) (%S+)')
  if outcome ~= '-' and replaces(was, outcome) then
    text = string.gsub(text, '^%S+ %S+', outcome .. ' ' .. start, 1)
    redis.call('HSET', KEYS[5], known, text)
    redis.call('ZREM', KEYS[8], known)
  end
end

function record.watched(job, is_watched)
  if redis.call('HGET', KEYS[3], job) then
    local words, texts = read(job)
    words[21] = is_watched
    write(job, words, texts)
  end
end

function record.audit(id, text)
  if redis.call('HSETNX', KEYS[10], id, text) == 1 then
    redis.call('ZADD', KEYS[9], 0, id)
  end
end

local sizes = {job = 12, run = 18, watched = 2, audit = 2}
local i = 1
while i < #ARGV do
  local kind = ARGV[i]
  record[kind](unpack(ARGV, i + 1, i + sizes[kind]))
  i = i + sizes[kind] + 1
end
return 'done'
