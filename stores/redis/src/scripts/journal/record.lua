-- Records entries, each a kind and its arguments. Repeating them changes nothing.
local time = redis.call('TIME')
local stamp = time[1] .. string.sub('00000' .. time[2], -6)

-- A missing value, '-', is less than any number.
local function later(a, b)
  return less(a, b) and b or a
end

-- The words of a job, which are numbered as in the wire format, and its texts.
local function read(name)
  local text = redis.call('HGET', KEYS[3], name)
  if not text then
    redis.call('ZADD', KEYS[2], 0, name)
    text = stamp .. ' - - - - - - - -\n\n\n'
  end
  local line, schedule, zone, failure = string.match(text, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  local words = {}
  for word in string.gmatch(line, '%S+') do
    words[#words + 1] = word
  end
  return words, schedule, zone, failure
end

local function write(name, words, schedule, zone, failure)
  local text = table.concat({table.concat(words, ' '), schedule, zone, failure}, '\n')
  redis.call('HSET', KEYS[3], name, text)
end

local function move(words, slot, deadline)
  if less(words[9], deadline) then
    words[8], words[9] = slot, deadline
  end
end

local record = {}

function record.job(name, at_most, schedule, zone, slot, deadline)
  local words, was_schedule, was_zone, failure = read(name)
  if schedule ~= was_schedule or zone ~= was_zone then
    words[1], words[8], words[9] = stamp, '-', '-'
  end
  words[2] = at_most
  move(words, slot, deadline)
  write(name, words, schedule, zone, failure)
end

-- of_job, of_name: the members of the sorted sets; of_name is '' if the lock is named like the job.
function record.run(id, text, name, of_job, of_name, outcome, started, ended, took, line, slot, deadline)
  local words, schedule, zone, failure = read(name)
  words[3] = later(words[3], started)
  if outcome ~= '-' then
    local is_latest = not less(ended, words[4]) and not less(ended, words[5])
    local has_succeeded = outcome == 'succeeded'
    local has_failed = not has_succeeded and outcome ~= 'cancelled'
    if is_latest then
      words[6] = outcome
    end
    if has_succeeded then
      words[4] = later(words[4], ended)
      words[7] = is_latest and took or words[7]
      move(words, slot, deadline)
    end
    if has_failed then
      words[5] = later(words[5], ended)
      failure = is_latest and line or failure
    end
  end
  write(name, words, schedule, zone, failure)

  local kept = redis.call('HGET', KEYS[5], id)
  if not kept then
    redis.call('ZADD', KEYS[4], 0, id)
    redis.call('ZADD', KEYS[6], 0, of_job)
    if of_name ~= '' then
      redis.call('ZADD', KEYS[7], 0, of_name)
    end
  end
  local is_open = not kept or string.sub(kept, 1, 2) == '- '
  if is_open or outcome == 'lost' then
    redis.call('HSET', KEYS[5], id, text)
    if outcome == '-' then
      redis.call('ZADD', KEYS[8], 0, id)
    else
      redis.call('ZREM', KEYS[8], id)
    end
  end
end

function record.audit(id, text)
  if redis.call('HSETNX', KEYS[10], id, text) == 1 then
    redis.call('ZADD', KEYS[9], 0, id)
  end
end

local sizes = {job = 6, run = 12, audit = 2}
local i = 1
while i < #ARGV do
  local kind = ARGV[i]
  record[kind](unpack(ARGV, i + 1, i + sizes[kind]))
  i = i + sizes[kind] + 1
end
return 'done'
