-- The statements for PostgreSQL. `:word` stands for a value.
-- A test compares this file with what the code makes, and writes it with
-- SHEDLOCK_STATEMENTS=record cargo test -p shedlock-sql --all-features --lib stand_in_their_file


-- ## Locks, in a complete table and in a bare one

-- Attempt(Nothing), complete
UPDATE "shedlock"
SET "lock_until" = timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  "locked_at" = timezone('utc', CURRENT_TIMESTAMP),
  "locked_by" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_until END
WHERE "name" = :name
  AND "lock_until" <= timezone('utc', CURRENT_TIMESTAMP)
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- Attempt(Nothing), bare
UPDATE "shedlock"
SET "lock_until" = timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  "locked_at" = timezone('utc', CURRENT_TIMESTAMP),
  "locked_by" = :owner
WHERE "name" = :name
  AND "lock_until" <= timezone('utc', CURRENT_TIMESTAMP)
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, NULL::bigint;

-- Attempt(Slot), complete
UPDATE "shedlock"
SET "lock_until" = timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  "locked_at" = timezone('utc', CURRENT_TIMESTAMP),
  "locked_by" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
  shedlock_slot = :slot,
  shedlock_slot_attempts = NULL,
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    AND :slot <= shedlock_skip_until THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    AND :slot <= shedlock_skip_until THEN shedlock_skip_until END
WHERE "name" = :name
  AND "lock_until" <= timezone('utc', CURRENT_TIMESTAMP)
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND COALESCE(shedlock_slot < :slot, true)
  AND COALESCE(NOT (shedlock_skip_from < :slot AND :slot <= shedlock_skip_until
    AND shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
    true)
  AND :slot <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint + :tolerance
  AND ((extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint < :slot
    OR "locked_by" LIKE '%/%/%')
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- Attempt(OpenSlot), complete
UPDATE "shedlock"
SET "lock_until" = timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  "locked_at" = timezone('utc', CURRENT_TIMESTAMP),
  "locked_by" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
  shedlock_slot = :slot,
  shedlock_slot_attempts = CASE WHEN shedlock_slot = :slot THEN COALESCE(shedlock_slot_attempts, 0) + 1 ELSE 1 END,
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    AND :slot <= shedlock_skip_until THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    AND :slot <= shedlock_skip_until THEN shedlock_skip_until END
WHERE "name" = :name
  AND "lock_until" <= timezone('utc', CURRENT_TIMESTAMP)
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND ((shedlock_slot = :slot AND shedlock_slot_attempts < :most_attempts)
    OR (COALESCE(NOT (shedlock_skip_from < :slot AND :slot <= shedlock_skip_until
      AND shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
      true)
      AND (shedlock_slot IS NULL
        OR (shedlock_slot < :slot AND shedlock_slot >= :previous
          AND (:previous < 1
            OR COALESCE(CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
              THEN shedlock_skip_from END,
              -1::bigint) = :skip_from
            AND COALESCE(CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
              THEN shedlock_skip_until END,
              -1::bigint) = :skip_until)
          AND (COALESCE(shedlock_slot_attempts, :most_attempts) >= :most_attempts
            OR (COALESCE("locked_by", '') NOT LIKE '%/%/%'
              AND (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
                THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'),
                  '9999-12-30 00:00:00') END) * 1000000)::bigint >= shedlock_slot))))))
  AND :slot <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint + :tolerance
  AND ((extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint < :slot
    OR "locked_by" LIKE '%/%/%')
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token, shedlock_slot_attempts;

-- Insert(Nothing), complete
INSERT INTO "shedlock" ("name", "lock_until", "locked_at", "locked_by", shedlock_fencing_token)
SELECT :name, timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  timezone('utc', CURRENT_TIMESTAMP), :owner, (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
WHERE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
    ON CONFLICT ("name") DO NOTHING
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- Insert(Nothing), bare
INSERT INTO "shedlock" ("name", "lock_until", "locked_at", "locked_by")
SELECT :name, timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  timezone('utc', CURRENT_TIMESTAMP), :owner
WHERE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
    ON CONFLICT ("name") DO NOTHING
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, NULL::bigint;

-- Insert(Slot), complete
INSERT INTO "shedlock" ("name", "lock_until", "locked_at", "locked_by", shedlock_fencing_token, shedlock_slot)
SELECT :name, timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  timezone('utc', CURRENT_TIMESTAMP), :owner, (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint, :slot
WHERE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
  AND :slot <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint + :tolerance ON CONFLICT ("name") DO NOTHING
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- Insert(OpenSlot), complete
INSERT INTO "shedlock" ("name", "lock_until", "locked_at", "locked_by", shedlock_fencing_token, shedlock_slot,
  shedlock_slot_attempts)
SELECT :name, timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  timezone('utc', CURRENT_TIMESTAMP), :owner, (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint, :slot, 1
WHERE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
  AND :slot <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint + :tolerance ON CONFLICT ("name") DO NOTHING
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token, shedlock_slot_attempts;

-- Read, complete
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, n.now
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
LEFT JOIN "shedlock" ON "name" = :name;

-- Read, bare
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, n.now
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
LEFT JOIN "shedlock" ON "name" = :name;

-- ReadToDecide, complete
/*NO LOAD BALANCE*/ WITH "a write" AS (UPDATE "shedlock" SET "lock_until" = "lock_until" WHERE false)
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, n.now
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
LEFT JOIN "shedlock" ON "name" = :name;

-- ReadToDecide, bare
/*NO LOAD BALANCE*/ WITH "a write" AS (UPDATE "shedlock" SET "lock_until" = "lock_until" WHERE false)
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, n.now
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
LEFT JOIN "shedlock" ON "name" = :name;

-- Extend
UPDATE "shedlock"
SET "lock_until" = GREATEST("lock_until", timezone('utc', clock_timestamp()) + :at_most * interval '1 microsecond')
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
  THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint;

-- Unlock(Nothing)
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond'),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp());

-- Unlock(Done { durable: false }), complete
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond'),
  "locked_by" = :released,
  shedlock_slot_done = CASE WHEN shedlock_slot_done > :slot THEN shedlock_slot_done ELSE :slot END,
  shedlock_slot_attempts = NULL
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp());

-- Unlock(Done { durable: true }), complete
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond'),
  "locked_by" = :released,
  shedlock_slot_done = CASE WHEN shedlock_slot_done > :slot THEN shedlock_slot_done ELSE :slot END,
  shedlock_slot_attempts = NULL
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END;

-- Unlock(Failed), complete
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond',
  timezone('utc', clock_timestamp()) + :at_most * interval '1 microsecond'),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp());

-- Unlock(NotStarted), complete
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond'),
  "locked_by" = :released,
  shedlock_slot = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts IS NULL
    AND COALESCE(shedlock_slot_done, -1) <> :slot THEN :previous ELSE shedlock_slot END,
  shedlock_slot_attempts = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts > 0
    THEN shedlock_slot_attempts - 1 ELSE shedlock_slot_attempts END
WHERE "name" = :name
  AND "locked_by" = :owner
  AND set_config('synchronous_commit', 'off', true) IS NOT NULL;

-- Unlock(Cut), complete
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond'),
  "locked_by" = :released,
  shedlock_slot_attempts = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts > 0
    THEN shedlock_slot_attempts - 1 ELSE shedlock_slot_attempts END
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp());

-- Withdraw
UPDATE "shedlock"
SET "lock_until" = timezone('utc', clock_timestamp()),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND set_config('synchronous_commit', 'off', true) IS NOT NULL;

-- Settle
INSERT INTO "shedlock" AS found ("name", "lock_until", "locked_at", "locked_by")
SELECT :name, timezone('utc', clock_timestamp()), timezone('utc', clock_timestamp()), :released
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
  ON CONFLICT ("name") DO UPDATE SET "lock_until" = timezone('utc', clock_timestamp())
WHERE found."lock_until" <= timezone('utc', clock_timestamp());

-- List { held_only: false }, complete
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM "shedlock"
WHERE "name" COLLATE "C" > :after
ORDER BY "name" COLLATE "C" LIMIT :limit;

-- List { held_only: false }, bare
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM "shedlock"
WHERE "name" COLLATE "C" > :after
ORDER BY "name" COLLATE "C" LIMIT :limit;

-- List { held_only: true }, complete
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM "shedlock"
WHERE "name" COLLATE "C" > :after
  AND "lock_until" > timezone('utc', clock_timestamp())
ORDER BY "name" COLLATE "C" LIMIT :limit;

-- List { held_only: true }, bare
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM "shedlock"
WHERE "name" COLLATE "C" > :after
  AND "lock_until" > timezone('utc', clock_timestamp())
ORDER BY "name" COLLATE "C" LIMIT :limit;

-- ResetSlot, complete
UPDATE "shedlock"
SET shedlock_slot = NULLIF(:slot, -1::bigint),
  shedlock_slot_done = NULLIF(:done, -1::bigint),
  shedlock_slot_attempts = NULLIF(:attempts, -1::bigint),
  shedlock_skip_from = NULLIF(:skip_from, -1::bigint),
  shedlock_skip_until = NULLIF(:skip_until, -1::bigint)
WHERE "name" = :name
  AND COALESCE(shedlock_slot, -1::bigint) = :previous
  AND COALESCE(shedlock_slot_attempts, -1::bigint) = :seen_attempts
  AND COALESCE(shedlock_skip_until, -1::bigint) = :seen_skip_until
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END;

-- Pause, complete
UPDATE "shedlock"
SET "lock_until" = (timestamp '1970-01-01 00:00:00' + (:ends_at) * interval '1 microsecond'),
  "locked_at" = timezone('utc', clock_timestamp()),
  "locked_by" = :released,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
  shedlock_skip_from = NULLIF(:skip_from, -1::bigint),
  shedlock_skip_until = NULLIF(:skip_until, -1::bigint)
WHERE "name" = :name
  AND "locked_by" = :owner
  AND COALESCE((extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
    -1::bigint) = :until
  AND COALESCE(shedlock_slot, -1::bigint) = :previous
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END;

-- Pause, bare
UPDATE "shedlock"
SET "lock_until" = (timestamp '1970-01-01 00:00:00' + (:ends_at) * interval '1 microsecond'),
  "locked_at" = timezone('utc', clock_timestamp()),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND COALESCE((extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
    -1::bigint) = :until
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END;

-- Resume, complete
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()),
  (timestamp '1970-01-01 00:00:00' + (:ends_at) * interval '1 microsecond')),
  "locked_by" = :released,
  shedlock_skip_from = NULLIF(:skip_from, -1::bigint),
  shedlock_skip_until = NULLIF(:skip_until, -1::bigint)
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END;

-- Resume, bare
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()),
  (timestamp '1970-01-01 00:00:00' + (:ends_at) * interval '1 microsecond')),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END;

-- Remove, complete
DELETE
FROM "shedlock"
WHERE "name" = :name
  AND "locked_by" = :owner
  AND COALESCE((extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
    -1::bigint) = :until
  AND COALESCE(shedlock_slot, -1::bigint) = :previous
  AND "lock_until" <= timezone('utc', clock_timestamp());

-- Remove, bare
DELETE
FROM "shedlock"
WHERE "name" = :name
  AND "locked_by" = :owner
  AND COALESCE((extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
    -1::bigint) = :until
  AND "lock_until" <= timezone('utc', clock_timestamp());


-- ## The table

-- the columns
SELECT a.attname::text, t.typname::text,
  CASE WHEN t.typname IN ('timestamp', 'timestamptz')
    THEN CASE WHEN a.atttypmod < 0 THEN 6 ELSE a.atttypmod END END::bigint,
  CASE WHEN t.typname IN ('varchar', 'bpchar') AND a.atttypmod >= 4 THEN a.atttypmod - 4 END::bigint,
  CASE WHEN c.collisdeterministic THEN NULL ELSE c.collname END::text,
  (EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
    AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum))::int::bigint,
  (a.attnotnull AND NOT a.atthasdef AND a.attidentity = '')::int::bigint,
  (pg_catalog.current_setting('server_version') || CASE WHEN pg_catalog.current_setting('fsync') <> 'on'
    THEN ', fsync is off' WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN ', waits for its disk'
    ELSE '' END || CASE
    WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_class r WHERE r.oid = a.attrelid AND r.relpersistence <> 'p')
    THEN ', the table is unlogged' ELSE '' END)::text,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
  (COALESCE(pg_catalog.inet_server_addr()::text, '') || ':' || COALESCE(pg_catalog.inet_server_port()::text,
    '') || '/' || pg_catalog.current_database() || '/' || a.attrelid::bigint::text),
  (SELECT n.nspname::text FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
    WHERE r.oid = a.attrelid AND r.relpersistence <> 't')
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = pg_catalog.to_regclass('"shedlock"')
  AND a.attnum > 0
  AND NOT a.attisdropped
ORDER BY a.attnum;

-- a missing table
CREATE TABLE "shedlock" (
    "name" varchar(64) COLLATE "C" NOT NULL PRIMARY KEY,
    "lock_until" timestamp NOT NULL,
    "locked_at" timestamp NOT NULL,
    "locked_by" varchar(255) NOT NULL,
    shedlock_fencing_token bigint NULL,
    shedlock_slot bigint NULL,
    shedlock_slot_done bigint NULL,
    shedlock_slot_attempts bigint NULL,
    shedlock_skip_from bigint NULL,
    shedlock_skip_until bigint NULL
);

-- add columns "shedlock_fencing_token", "shedlock_slot", "shedlock_slot_done", "shedlock_slot_attempts", "shedlock_skip_from", "shedlock_skip_until" to table "shedlock"
ALTER TABLE "shedlock"
    ADD COLUMN shedlock_fencing_token bigint NULL,
    ADD COLUMN shedlock_slot bigint NULL,
    ADD COLUMN shedlock_slot_done bigint NULL,
    ADD COLUMN shedlock_slot_attempts bigint NULL,
    ADD COLUMN shedlock_skip_from bigint NULL,
    ADD COLUMN shedlock_skip_until bigint NULL;

-- whether the index of names can be added
SELECT CASE
  WHEN NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_collation c ON c.oid = i.indcollation[0]
    WHERE i.indrelid = pg_catalog.to_regclass('"shedlock"') AND i.indisvalid AND i.indpred IS NULL
    AND c.collname IN ('C', 'POSIX'))
  AND pg_catalog.pg_has_role((SELECT r.relowner FROM pg_catalog.pg_class r
    WHERE r.oid = pg_catalog.to_regclass('"shedlock"')),
    'USAGE')
  THEN 'x' ELSE '' END;

-- the index of names
CREATE INDEX "shedlock_name_bytes" ON "shedlock" ("name" COLLATE "C");

-- a rehearsal that writes nothing, complete
INSERT INTO "shedlock" ("name", "lock_until", "locked_at", "locked_by", shedlock_fencing_token, shedlock_slot,
  shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until)
SELECT "name", "lock_until", "locked_at", "locked_by", shedlock_fencing_token, shedlock_slot, shedlock_slot_done,
  shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until
FROM "shedlock"
WHERE 1 = 0;

-- a rehearsal that writes nothing, complete
UPDATE "shedlock"
SET "lock_until" = "lock_until",
  "locked_at" = "locked_at",
  "locked_by" = "locked_by",
  shedlock_fencing_token = shedlock_fencing_token,
  shedlock_slot = shedlock_slot,
  shedlock_slot_done = shedlock_slot_done,
  shedlock_slot_attempts = shedlock_slot_attempts,
  shedlock_skip_from = shedlock_skip_from,
  shedlock_skip_until = shedlock_skip_until
WHERE 1 = 0;

-- a rehearsal that writes nothing, bare
INSERT INTO "shedlock" ("name", "lock_until", "locked_at", "locked_by")
SELECT "name", "lock_until", "locked_at", "locked_by"
FROM "shedlock"
WHERE 1 = 0;

-- a rehearsal that writes nothing, bare
UPDATE "shedlock" SET "lock_until" = "lock_until", "locked_at" = "locked_at", "locked_by" = "locked_by" WHERE 1 = 0;

-- whether a schema exists
SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'jobs') THEN 'x' ELSE '' END;

-- other lock tables
SELECT CASE WHEN n.nspname <> current_schema() THEN n.nspname END::text, c.relname::text
FROM (SELECT a.attrelid FROM pg_catalog.pg_attribute a WHERE a.attnum > 0 AND NOT a.attisdropped
  AND lower(a.attname::text) IN ('name', 'lock_until', 'locked_at', 'locked_by')
  GROUP BY a.attrelid HAVING count(*) = 4) s JOIN pg_catalog.pg_class c
  ON c.oid = s.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f')
  AND NOT c.relispartition
  AND n.nspname NOT LIKE 'pg!_%' ESCAPE '!'
  AND c.oid IS DISTINCT
FROM pg_catalog.to_regclass('"shedlock"')
ORDER BY 1 NULLS FIRST, 2 LIMIT 6;

-- when a table was used last
SELECT MAX((extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
  THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint)
FROM "shedlock";

-- names in both
SELECT "name"
FROM "shedlock"
WHERE "name"::text COLLATE "C" IN (SELECT "name"::text COLLATE "C" FROM "shedlock")
ORDER BY "name" LIMIT 6;

-- what Java took lately
SELECT "name", "locked_by"
FROM "shedlock"
WHERE "locked_by" NOT LIKE '%/%/%'
  AND (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'),
      '9999-12-30 00:00:00') END) * 1000000)::bigint > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 3024000000000
ORDER BY "locked_at" DESC LIMIT 1;

-- a name that differs in case
SELECT min("name"::text) FROM "shedlock" WHERE lower("name"::text) = lower(:name) AND "name"::text <> :name;


-- ## The server

-- a new session
SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false),
  CASE WHEN current_setting('lock_timeout') = '0' THEN set_config('lock_timeout', '5s', false) END;

-- after each statement on a connection that is not ours
SELECT CASE WHEN now() <> statement_timestamp() THEN 'it is in a transaction' WHEN pg_catalog.pg_my_temp_schema() <> 0
  AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('"shedlock"')
    AND relpersistence = 't')
  THEN 'it has a temporary table of the same name' ELSE '' END;

-- doctor: old-versions
SELECT CASE WHEN pg_catalog.pg_stat_get_dead_tuples(pg_catalog.to_regclass('"shedlock"')) > 10000
  AND pg_catalog.pg_stat_get_dead_tuples(pg_catalog.to_regclass('"shedlock"')) > 10 * pg_catalog.pg_stat_get_live_tuples(pg_catalog.to_regclass('"shedlock"'))
  THEN COALESCE((SELECT h.who
    FROM (SELECT 'the transaction of process ' || a.pid || COALESCE(' of ' || a.usename,
      '') || COALESCE(' (' || NULLIF(a.application_name, '') || ')', '') AS who,
      pg_catalog.age(a.backend_xmin) AS age FROM pg_catalog.pg_stat_activity a WHERE a.backend_xmin IS NOT NULL
      AND a.pid <> pg_catalog.pg_backend_pid()
      AND (a.datname = pg_catalog.current_database()
        OR a.datname IS NULL) UNION ALL SELECT 'the prepared transaction ' || p.gid,
      pg_catalog.age(p.transaction) FROM pg_catalog.pg_prepared_xacts p
      WHERE p.database = pg_catalog.current_database() UNION ALL SELECT 'the replication slot ' || r.slot_name,
      pg_catalog.age(r.xmin) FROM pg_catalog.pg_replication_slots r WHERE r.xmin IS NOT NULL) h
    WHERE h.age > 1000 ORDER BY h.age DESC LIMIT 1),
    '')
  ELSE '' END;

-- doctor: synchronous-commit
SELECT CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN 'x' ELSE '' END;

-- doctor: commits
SELECT CASE WHEN pg_catalog.current_setting('synchronous_standby_names') <> ''
  AND (NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_replication)
    OR EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity a WHERE a.wait_event = 'SyncRep'
      AND a.state_change < pg_catalog.clock_timestamp() - interval '2 seconds'))
  THEN 'x' ELSE '' END;

-- doctor: replicas
SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_stat_replication)
  AND pg_catalog.current_setting('synchronous_standby_names') = '' THEN 'x' ELSE '' END;

-- doctor: promotion
SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() AND pg_catalog.pg_last_wal_receive_lsn() IS NOT NULL
  AND pg_catalog.pg_last_xact_replay_timestamp() > pg_catalog.clock_timestamp() - interval '1 day'
  THEN pg_catalog.to_char(pg_catalog.pg_last_xact_replay_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
  ELSE '' END;

-- doctor: subscription
SELECT CASE
  WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_subscription_rel r WHERE r.srrelid = pg_catalog.to_regclass('"shedlock"'))
  THEN 'x' ELSE '' END;

-- doctor: row-security
SELECT CASE WHEN pg_catalog.row_security_active(pg_catalog.to_regclass('"shedlock"')) THEN 'x' ELSE '' END;

-- doctor: triggers
SELECT CASE
  WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_trigger g WHERE g.tgrelid = pg_catalog.to_regclass('"shedlock"')
    AND NOT g.tgisinternal AND g.tgenabled <> 'D')
  THEN 'x' ELSE '' END;

-- cancels a session of ours
SELECT COALESCE((SELECT CASE WHEN a.wait_event IS DISTINCT FROM 'SyncRep' THEN 'there'
  WHEN pg_catalog.pg_cancel_backend(a.pid) THEN 'cancelled' ELSE 'there' END
  FROM pg_catalog.pg_stat_activity a
  WHERE a.pid::text || ' ' || (extract(epoch FROM a.backend_start) * 1000000)::bigint::text = '1 2'),
  'gone');

-- a standby's time
SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
  THEN (EXTRACT(EPOCH FROM pg_catalog.pg_last_xact_replay_timestamp()) * 1000000)::bigint END;


-- ## The journal's tables

-- create table "shedlock_journal"
CREATE TABLE "shedlock_journal" (
    version bigint NOT NULL PRIMARY KEY,
    identity varchar(64) COLLATE "C" NOT NULL
);

-- create table "shedlock_job"
CREATE TABLE "shedlock_job" (
    job varchar(255) COLLATE "C" NOT NULL PRIMARY KEY,
    schedule varchar(255) COLLATE "C" NULL,
    zone varchar(255) COLLATE "C" NULL,
    lock_at_most_us bigint NULL,
    registered_us bigint NOT NULL,
    last_started_us bigint NULL,
    last_name varchar(255) COLLATE "C" NULL,
    last_owner varchar(255) COLLATE "C" NULL,
    last_lock_at_most_us bigint NULL,
    last_slot_us bigint NULL,
    last_lock_store varchar(255) COLLATE "C" NULL,
    last_outcome varchar(16) COLLATE "C" NULL,
    last_succeeded_us bigint NULL,
    last_failed_us bigint NULL,
    last_error varchar(1024) COLLATE "C" NULL,
    last_duration_us bigint NULL,
    next_slot_us bigint NULL,
    deadline_us bigint NULL,
    registered_by varchar(255) COLLATE "C" NULL,
    other_by varchar(255) COLLATE "C" NULL,
    other_at_us bigint NULL,
    other_schedule varchar(255) COLLATE "C" NULL,
    other_zone varchar(255) COLLATE "C" NULL,
    other_lock_at_most_us bigint NULL,
    elsewhere_slot_us bigint NULL,
    elsewhere_at_us bigint NULL,
    elsewhere_by varchar(255) COLLATE "C" NULL,
    elsewhere_slots bigint NULL,
    watched_elsewhere bigint NULL
);

-- create table "shedlock_run"
CREATE TABLE "shedlock_run" (
    id varchar(64) COLLATE "C" NOT NULL PRIMARY KEY,
    job varchar(255) COLLATE "C" NOT NULL,
    name varchar(255) COLLATE "C" NOT NULL,
    owner varchar(255) COLLATE "C" NOT NULL,
    slot_us bigint NULL,
    attempt bigint NULL,
    fencing_token bigint NULL,
    started_us bigint NOT NULL,
    lock_at_most_us bigint NULL,
    lock_store varchar(255) COLLATE "C" NULL,
    ran_for_us bigint NULL,
    outcome varchar(16) COLLATE "C" NULL,
    error varchar(2048) COLLATE "C" NULL
);

-- create index "shedlock_run_job" on table "shedlock_run"
CREATE INDEX "shedlock_run_job" ON "shedlock_run" (job, started_us, id);

-- create index "shedlock_run_name" on table "shedlock_run"
CREATE INDEX "shedlock_run_name" ON "shedlock_run" (name, started_us, id);

-- create index "shedlock_run_outcome" on table "shedlock_run"
CREATE INDEX "shedlock_run_outcome" ON "shedlock_run" (outcome, started_us, id);

-- create index "shedlock_run_started_us" on table "shedlock_run"
CREATE INDEX "shedlock_run_started_us" ON "shedlock_run" (started_us, id);

-- create table "shedlock_audit"
CREATE TABLE "shedlock_audit" (
    id varchar(64) COLLATE "C" NOT NULL PRIMARY KEY,
    at_us bigint NOT NULL,
    actor varchar(255) COLLATE "C" NOT NULL,
    is_authenticated bigint NOT NULL,
    action varchar(16) COLLATE "C" NOT NULL,
    name varchar(255) COLLATE "C" NOT NULL,
    detail varchar(1024) COLLATE "C" NOT NULL,
    reason varchar(1024) COLLATE "C" NULL,
    until_us bigint NULL,
    lock_store varchar(255) COLLATE "C" NULL
);

-- create index "shedlock_audit_name" on table "shedlock_audit"
CREATE INDEX "shedlock_audit_name" ON "shedlock_audit" (name, id);

-- record version 1 of the journal
INSERT INTO "shedlock_journal" (version, identity)
SELECT 1, md5(random()::text || clock_timestamp()::text)
FROM (SELECT 1 AS one) AS n
WHERE NOT EXISTS (SELECT 1 FROM "shedlock_journal");


-- ## The journal

-- around a transaction; the same in a session that is not ours
BEGIN;

-- around a transaction; the same in a session that is not ours
COMMIT;

-- the same in a session that is not ours
SET LOCAL lock_timeout = '1s';

-- clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- version
SELECT version FROM "shedlock_journal";

-- identity
SELECT identity FROM "shedlock_journal";

-- version_insert
INSERT INTO "shedlock_journal" (version, identity)
SELECT :j_version, md5(random()::text || clock_timestamp()::text)
FROM (SELECT 1 AS one) AS n
WHERE NOT EXISTS (SELECT 1 FROM "shedlock_journal");

-- job
SELECT job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name, last_owner,
  last_lock_at_most_us, last_slot_us, last_lock_store, last_outcome, last_succeeded_us, last_failed_us, last_error,
  last_duration_us, next_slot_us, deadline_us, registered_by, other_by, other_at_us, other_schedule, other_zone,
  other_lock_at_most_us, elsewhere_slot_us, elsewhere_at_us, elsewhere_by, elsewhere_slots, watched_elsewhere
FROM "shedlock_job"
WHERE job = :j_job;

-- jobs
SELECT job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name, last_owner,
  last_lock_at_most_us, last_slot_us, last_lock_store, last_outcome, last_succeeded_us, last_failed_us, last_error,
  last_duration_us, next_slot_us, deadline_us, registered_by, other_by, other_at_us, other_schedule, other_zone,
  other_lock_at_most_us, elsewhere_slot_us, elsewhere_at_us, elsewhere_by, elsewhere_slots, watched_elsewhere
FROM "shedlock_job"
WHERE job > :j_after
ORDER BY job LIMIT :j_limit;

-- job_is_there
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
  (SELECT COUNT(*) FROM "shedlock_job" WHERE job = :j_job);

-- job_for_update
SELECT job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name, last_owner,
  last_lock_at_most_us, last_slot_us, last_lock_store, last_outcome, last_succeeded_us, last_failed_us, last_error,
  last_duration_us, next_slot_us, deadline_us, registered_by, other_by, other_at_us, other_schedule, other_zone,
  other_lock_at_most_us, elsewhere_slot_us, elsewhere_at_us, elsewhere_by, elsewhere_slots, watched_elsewhere
FROM "shedlock_job"
WHERE job = :j_job FOR UPDATE;

-- job_insert
INSERT INTO "shedlock_job" (job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name,
  last_owner, last_lock_at_most_us, last_slot_us, last_lock_store, last_outcome, last_succeeded_us, last_failed_us,
  last_error, last_duration_us, next_slot_us, deadline_us, registered_by, other_by, other_at_us, other_schedule,
  other_zone, other_lock_at_most_us, elsewhere_slot_us, elsewhere_at_us, elsewhere_by, elsewhere_slots,
  watched_elsewhere)
VALUES (:j_job, NULLIF(:j_schedule, ''), NULLIF(:j_zone, ''), NULLIF(:j_lock_at_most_us, -1), :j_registered_us,
  NULLIF(:j_last_started_us, -1), NULLIF(:j_last_name, ''), NULLIF(:j_last_owner, ''),
  NULLIF(:j_last_lock_at_most_us, -1), NULLIF(:j_last_slot_us, -1), NULLIF(:j_last_lock_store, ''),
  NULLIF(:j_last_outcome, ''), NULLIF(:j_last_succeeded_us, -1), NULLIF(:j_last_failed_us, -1),
  NULLIF(:j_last_error, ''), NULLIF(:j_last_duration_us, -1), NULLIF(:j_next_slot_us, -1), NULLIF(:j_deadline_us, -1),
  NULLIF(:j_registered_by, ''), NULLIF(:j_other_by, ''), NULLIF(:j_other_at_us, -1), NULLIF(:j_other_schedule, ''),
  NULLIF(:j_other_zone, ''), NULLIF(:j_other_lock_at_most_us, -1), NULLIF(:j_elsewhere_slot_us, -1),
  NULLIF(:j_elsewhere_at_us, -1), NULLIF(:j_elsewhere_by, ''), NULLIF(:j_elsewhere_slots, -1),
  NULLIF(:j_watched_elsewhere, -1));

-- job_update
UPDATE "shedlock_job"
SET schedule = NULLIF(:j_schedule, ''),
  zone = NULLIF(:j_zone, ''),
  lock_at_most_us = NULLIF(:j_lock_at_most_us, -1),
  registered_us = :j_registered_us,
  last_started_us = NULLIF(:j_last_started_us, -1),
  last_name = NULLIF(:j_last_name, ''),
  last_owner = NULLIF(:j_last_owner, ''),
  last_lock_at_most_us = NULLIF(:j_last_lock_at_most_us, -1),
  last_slot_us = NULLIF(:j_last_slot_us, -1),
  last_lock_store = NULLIF(:j_last_lock_store, ''),
  last_outcome = NULLIF(:j_last_outcome, ''),
  last_succeeded_us = NULLIF(:j_last_succeeded_us, -1),
  last_failed_us = NULLIF(:j_last_failed_us, -1),
  last_error = NULLIF(:j_last_error, ''),
  last_duration_us = NULLIF(:j_last_duration_us, -1),
  next_slot_us = NULLIF(:j_next_slot_us, -1),
  deadline_us = NULLIF(:j_deadline_us, -1),
  registered_by = NULLIF(:j_registered_by, ''),
  other_by = NULLIF(:j_other_by, ''),
  other_at_us = NULLIF(:j_other_at_us, -1),
  other_schedule = NULLIF(:j_other_schedule, ''),
  other_zone = NULLIF(:j_other_zone, ''),
  other_lock_at_most_us = NULLIF(:j_other_lock_at_most_us, -1),
  elsewhere_slot_us = NULLIF(:j_elsewhere_slot_us, -1),
  elsewhere_at_us = NULLIF(:j_elsewhere_at_us, -1),
  elsewhere_by = NULLIF(:j_elsewhere_by, ''),
  elsewhere_slots = NULLIF(:j_elsewhere_slots, -1),
  watched_elsewhere = NULLIF(:j_watched_elsewhere, -1)
WHERE job = :j_job;

-- run
SELECT id, job, name, owner, slot_us, attempt, fencing_token, started_us, lock_at_most_us, lock_store, ran_for_us,
  outcome, error
FROM "shedlock_run"
WHERE id = :j_id;

-- run_insert
INSERT INTO "shedlock_run" (id, job, name, owner, slot_us, attempt, fencing_token, started_us, lock_at_most_us,
  lock_store, ran_for_us, outcome, error)
VALUES (:j_id, :j_job, :j_name, :j_owner, NULLIF(:j_slot_us, -1), NULLIF(:j_attempt, -1),
  NULLIF(:j_fencing_token, -1), :j_started_us, NULLIF(:j_lock_at_most_us, -1), NULLIF(:j_lock_store, ''),
  NULLIF(:j_ran_for_us, -1), NULLIF(:j_outcome, ''), NULLIF(:j_error, ''));

-- run_update
UPDATE "shedlock_run"
SET job = :j_job,
  name = :j_name,
  owner = :j_owner,
  slot_us = NULLIF(:j_slot_us, -1),
  attempt = NULLIF(:j_attempt, -1),
  fencing_token = NULLIF(:j_fencing_token, -1),
  started_us = :j_started_us,
  lock_at_most_us = NULLIF(:j_lock_at_most_us, -1),
  lock_store = NULLIF(:j_lock_store, ''),
  ran_for_us = NULLIF(:j_ran_for_us, -1),
  outcome = NULLIF(:j_outcome, ''),
  error = NULLIF(:j_error, '')
WHERE id = :j_id;

-- audit_insert
INSERT INTO "shedlock_audit" (id, at_us, actor, is_authenticated, action, name, detail, reason, until_us, lock_store)
VALUES (:j_id, :j_at_us, :j_actor, :j_is_authenticated, :j_action, :j_name, :j_detail, NULLIF(:j_reason, ''),
  NULLIF(:j_until_us, -1), NULLIF(:j_lock_store, ''))
  ON CONFLICT DO NOTHING;

-- first_excess
SELECT id, started_us FROM "shedlock_run" WHERE job = :j_job ORDER BY started_us DESC, id DESC LIMIT 1 OFFSET :j_keep;

-- prune_runs
DELETE
FROM "shedlock_run"
WHERE id IN (SELECT id
  FROM (SELECT id FROM "shedlock_run" WHERE job = :j_job AND started_us <= :j_started
    AND (started_us < :j_started OR id <= :j_id) ORDER BY started_us, id LIMIT :j_limit) AS excess);

-- prune_old_runs
DELETE
FROM "shedlock_run"
WHERE id IN (SELECT id
  FROM (SELECT id FROM "shedlock_run" WHERE started_us < :j_started ORDER BY started_us, id LIMIT :j_limit) AS old);

-- prune_old_audit
DELETE
FROM "shedlock_audit"
WHERE id IN (SELECT id FROM (SELECT id FROM "shedlock_audit" WHERE id < :j_id ORDER BY id LIMIT :j_limit) AS old);

-- forget_runs
DELETE FROM "shedlock_run" WHERE job = :j_job;

-- forget_job
DELETE FROM "shedlock_job" WHERE job = :j_job;

-- all runs
SELECT id, job, name, owner, slot_us, attempt, fencing_token, started_us, lock_at_most_us, lock_store, ran_for_us,
  outcome, error
FROM "shedlock_run"
WHERE 1 = 1
ORDER BY started_us DESC, id DESC LIMIT :j_limit;

-- some runs
SELECT id, job, name, owner, slot_us, attempt, fencing_token, started_us, lock_at_most_us, lock_store, ran_for_us,
  outcome, error
FROM "shedlock_run"
WHERE 1 = 1
  AND job = :j_job
  AND name = :j_name
  AND outcome = :j_outcome
  AND outcome IS NULL
  AND started_us >= :j_since
  AND started_us <= :j_started
  AND (started_us < :j_started OR id < :j_id)
ORDER BY started_us DESC, id DESC LIMIT :j_limit;

-- all records
SELECT id, at_us, actor, is_authenticated, action, name, detail, reason, until_us, lock_store
FROM "shedlock_audit"
WHERE 1 = 1
ORDER BY id DESC LIMIT :j_limit;

-- some records
SELECT id, at_us, actor, is_authenticated, action, name, detail, reason, until_us, lock_store
FROM "shedlock_audit"
WHERE 1 = 1
  AND name = :j_name
  AND id < :j_id
ORDER BY id DESC LIMIT :j_limit;

-- whether this user may SELECT on _journal
SELECT 1 FROM "shedlock_journal" WHERE 1 = 0;

-- whether this user may SELECT on _job
SELECT 1 FROM "shedlock_job" WHERE 1 = 0;

-- whether this user may INSERT on _job
INSERT INTO "shedlock_job" (job, registered_us) SELECT '', 0 FROM (SELECT 1 AS one) AS n WHERE 1 = 0;

-- whether this user may UPDATE on _job
UPDATE "shedlock_job" SET last_error = '' WHERE 1 = 0;

-- whether this user may SELECT on _run
SELECT 1 FROM "shedlock_run" WHERE 1 = 0;

-- whether this user may INSERT on _run
INSERT INTO "shedlock_run" (id, job, name, owner, started_us)
SELECT '', '', '', '', 0
FROM (SELECT 1 AS one) AS n
WHERE 1 = 0;

-- whether this user may UPDATE on _run
UPDATE "shedlock_run" SET error = '' WHERE 1 = 0;

-- whether this user may DELETE on _run
DELETE FROM "shedlock_run" WHERE 1 = 0;

-- whether this user may SELECT on _audit
SELECT 1 FROM "shedlock_audit" WHERE 1 = 0;

-- whether this user may INSERT on _audit
INSERT INTO "shedlock_audit" (id, at_us, actor, is_authenticated, action, name, detail)
SELECT '', 0, '', 0, '', '', ''
FROM (SELECT 1 AS one) AS n
WHERE 1 = 0;

-- whether this user may not create tables
SELECT CASE
  WHEN NOT pg_catalog.has_schema_privilege(COALESCE((SELECT c.relnamespace FROM pg_catalog.pg_class c
    WHERE c.oid = pg_catalog.to_regclass('"shedlock"')),
    pg_catalog.to_regnamespace(current_schema()::text)),
    'CREATE')
  THEN 'x' ELSE '' END;


-- ## Some statements that differ: columns of type timestamptz

-- Attempt(Nothing)
UPDATE "shedlock"
SET "lock_until" = CURRENT_TIMESTAMP + :at_most * interval '1 microsecond',
  "locked_at" = CURRENT_TIMESTAMP,
  "locked_by" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_until END
WHERE "name" = :name
  AND "lock_until" <= CURRENT_TIMESTAMP
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- Extend
UPDATE "shedlock"
SET "lock_until" = GREATEST("lock_until", clock_timestamp() + :at_most * interval '1 microsecond')
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > clock_timestamp()
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
  THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint;

-- Unlock(Failed)
UPDATE "shedlock"
SET "lock_until" = GREATEST(clock_timestamp(), "locked_at" + :at_least * interval '1 microsecond',
  clock_timestamp() + :at_most * interval '1 microsecond'),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > clock_timestamp();

-- Settle
INSERT INTO "shedlock" AS found ("name", "lock_until", "locked_at", "locked_by")
SELECT :name, clock_timestamp(), clock_timestamp(), :released
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
  ON CONFLICT ("name") DO UPDATE SET "lock_until" = clock_timestamp()
WHERE found."lock_until" <= clock_timestamp();

-- List { held_only: true }
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM "shedlock"
WHERE "name" COLLATE "C" > :after
  AND "lock_until" > clock_timestamp()
ORDER BY "name" COLLATE "C" LIMIT :limit;


-- ## Some statements that differ: columns of type timestamp(0)

-- Attempt(Nothing)
UPDATE "shedlock"
SET "lock_until" = (timestamp '1970-01-01 00:00:00' + (((extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint + :at_most + 999999) / 1000000 * 1000000) * interval '1 microsecond'),
  "locked_at" = (timestamp '1970-01-01 00:00:00' + ((extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint / 1000000 * 1000000) * interval '1 microsecond'),
  "locked_by" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_until END
WHERE "name" = :name
  AND "lock_until" <= timezone('utc', CURRENT_TIMESTAMP)
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- Extend
UPDATE "shedlock"
SET "lock_until" = GREATEST("lock_until",
  (timestamp '1970-01-01 00:00:00' + (((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + :at_most + 999999) / 1000000 * 1000000) * interval '1 microsecond'))
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
  THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint;

-- Unlock(Failed)
UPDATE "shedlock"
SET "lock_until" = GREATEST((timestamp '1970-01-01 00:00:00' + ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint / 1000000 * 1000000) * interval '1 microsecond'),
  CASE WHEN :at_least > 0
    THEN (timestamp '1970-01-01 00:00:00' + (((extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
      THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'),
        '9999-12-30 00:00:00') END) * 1000000)::bigint + 1000000 + :at_least + 999999) / 1000000 * 1000000) * interval '1 microsecond')
    ELSE (timestamp '1970-01-01 00:00:00' + ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint / 1000000 * 1000000) * interval '1 microsecond') END,
  (timestamp '1970-01-01 00:00:00' + (((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + :at_most + 999999) / 1000000 * 1000000) * interval '1 microsecond')),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp());

-- Settle
INSERT INTO "shedlock" AS found ("name", "lock_until", "locked_at", "locked_by")
SELECT :name,
  (timestamp '1970-01-01 00:00:00' + ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint / 1000000 * 1000000) * interval '1 microsecond'),
  (timestamp '1970-01-01 00:00:00' + ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint / 1000000 * 1000000) * interval '1 microsecond'),
  :released
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
  ON CONFLICT ("name") DO UPDATE SET "lock_until" = (timestamp '1970-01-01 00:00:00' + ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint / 1000000 * 1000000) * interval '1 microsecond')
WHERE found."lock_until" <= timezone('utc', clock_timestamp());


-- ## Some statements that differ: a server that waits for its disk

-- Unlock(Failed)
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond',
  timezone('utc', clock_timestamp()) + :at_most * interval '1 microsecond'),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND set_config('synchronous_commit', 'off', true) IS NOT NULL;


-- ## Some statements that differ: durable_unlock

-- Unlock(Failed)
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond',
  timezone('utc', clock_timestamp()) + :at_most * interval '1 microsecond'),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END;


-- ## Some statements that differ: a name whose collation is not exact

-- Attempt(Nothing)
UPDATE "shedlock"
SET "lock_until" = timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  "locked_at" = timezone('utc', CURRENT_TIMESTAMP),
  "locked_by" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_until END
WHERE "name" = :name
  AND "name"::text COLLATE "C" = :name
  AND "lock_until" <= timezone('utc', CURRENT_TIMESTAMP)
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- Extend
UPDATE "shedlock"
SET "lock_until" = GREATEST("lock_until", timezone('utc', clock_timestamp()) + :at_most * interval '1 microsecond')
WHERE "name" = :name
  AND "name"::text COLLATE "C" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
  THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint;

-- Unlock(Failed)
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond',
  timezone('utc', clock_timestamp()) + :at_most * interval '1 microsecond'),
  "locked_by" = :released
WHERE "name" = :name
  AND "name"::text COLLATE "C" = :name
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp());

-- Settle
INSERT INTO "shedlock" AS found ("name", "lock_until", "locked_at", "locked_by")
SELECT :name, timezone('utc', clock_timestamp()), timezone('utc', clock_timestamp()), :released
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
  ON CONFLICT ("name") DO UPDATE SET "lock_until" = timezone('utc', clock_timestamp())
WHERE found."lock_until" <= timezone('utc', clock_timestamp())
  AND found."name"::text COLLATE "C" = :name;


-- ## Some statements that differ: time=client

-- Attempt(Nothing)
UPDATE "shedlock"
SET "lock_until" = (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond') + :at_most * interval '1 microsecond',
  "locked_at" = (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond'),
  "locked_by" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1, :now),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= :now + :skew THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= :now + :skew THEN shedlock_skip_until END
WHERE "name" = :name
  AND "lock_until" <= (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond')
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- ReadToDecide
/*NO LOAD BALANCE*/ WITH "a write" AS (UPDATE "shedlock" SET "lock_until" = "lock_until" WHERE false)
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, n.now, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM (SELECT :now AS now) n
LEFT JOIN "shedlock" ON "name" = :name;

-- Extend
UPDATE "shedlock"
SET "lock_until" = GREATEST("lock_until",
  (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond') + :at_most * interval '1 microsecond')
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond')
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
  THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint;

-- Unlock(Failed)
UPDATE "shedlock"
SET "lock_until" = GREATEST((timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond'),
  "locked_at" + :at_least * interval '1 microsecond',
  (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond') + :at_most * interval '1 microsecond'),
  "locked_by" = :released
WHERE "name" = :name
  AND "locked_by" = :owner
  AND "lock_until" > (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond');

-- Settle
INSERT INTO "shedlock" AS found ("name", "lock_until", "locked_at", "locked_by")
SELECT :name, (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond'),
  (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond'), :released
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
  ON CONFLICT ("name") DO UPDATE SET "lock_until" = (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond')
WHERE found."lock_until" <= (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond');

-- List { held_only: true }
SELECT "name", "locked_by",
  (extract(epoch FROM CASE WHEN "locked_at" IS NOT NULL
    THEN LEAST(GREATEST("locked_at", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
    THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint,
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, :now
FROM "shedlock"
WHERE "name" COLLATE "C" > :after
  AND "lock_until" > (timestamp '1970-01-01 00:00:00' + :now * interval '1 microsecond')
ORDER BY "name" COLLATE "C" LIMIT :limit;


-- ## Some statements that differ: other names

-- Attempt(Nothing)
UPDATE "jobs"."Locks"
SET "Until" = timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  "Since" = timezone('utc', CURRENT_TIMESTAMP),
  "Holder" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_until END
WHERE "Name" = :name
  AND "Until" <= timezone('utc', CURRENT_TIMESTAMP)
  AND COALESCE("Holder", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "Since") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "Name")::bigint END,
  (extract(epoch FROM "Until") * 1000000)::bigint, shedlock_fencing_token;

-- Insert(Nothing)
INSERT INTO "jobs"."Locks" ("Name", "Until", "Since", "Holder", shedlock_fencing_token)
SELECT :name, timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  timezone('utc', CURRENT_TIMESTAMP), :owner, (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
WHERE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
    ON CONFLICT ("Name") DO NOTHING
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "Since") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "Name")::bigint END,
  (extract(epoch FROM "Until") * 1000000)::bigint, shedlock_fencing_token;


-- ## Some statements that differ: a user's pool

-- Attempt(Nothing)
UPDATE "shedlock"
SET "lock_until" = timezone('utc', CURRENT_TIMESTAMP) + :at_most * interval '1 microsecond',
  "locked_at" = timezone('utc', CURRENT_TIMESTAMP),
  "locked_by" = :owner,
  shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint
    THEN shedlock_skip_until END
WHERE "name" = :name
  AND now() = statement_timestamp()
  AND "lock_until" <= timezone('utc', CURRENT_TIMESTAMP)
  AND COALESCE("locked_by", '') NOT IN (:released, :freed)
  AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= :not_after
  THEN (extract(epoch FROM "locked_at") * 1000000)::bigint
  ELSE ('the attempt came after its not-after: ' || "name")::bigint END,
  (extract(epoch FROM "lock_until") * 1000000)::bigint, shedlock_fencing_token;

-- Extend
UPDATE "shedlock"
SET "lock_until" = GREATEST("lock_until", timezone('utc', clock_timestamp()) + :at_most * interval '1 microsecond')
WHERE "name" = :name
  AND now() = statement_timestamp()
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp())
  AND CASE current_setting('synchronous_commit') WHEN 'off'
    THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
RETURNING (extract(epoch FROM CASE WHEN "lock_until" IS NOT NULL
  THEN LEAST(GREATEST("lock_until", '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint;

-- Unlock(Failed)
UPDATE "shedlock"
SET "lock_until" = GREATEST(timezone('utc', clock_timestamp()), "locked_at" + :at_least * interval '1 microsecond',
  timezone('utc', clock_timestamp()) + :at_most * interval '1 microsecond'),
  "locked_by" = :released
WHERE "name" = :name
  AND now() = statement_timestamp()
  AND "locked_by" = :owner
  AND "lock_until" > timezone('utc', clock_timestamp());

-- Settle
INSERT INTO "shedlock" AS found ("name", "lock_until", "locked_at", "locked_by")
SELECT :name, timezone('utc', clock_timestamp()), timezone('utc', clock_timestamp()), :released
WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
  AND now() = statement_timestamp()
    ON CONFLICT ("name") DO UPDATE SET "lock_until" = timezone('utc', clock_timestamp())
WHERE found."lock_until" <= timezone('utc', clock_timestamp());
