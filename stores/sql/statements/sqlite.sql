-- The statements for SQLite. `:word` stands for a value.
-- A test compares this file with what the code makes, and writes it with
-- SHEDLOCK_STATEMENTS=record cargo test -p shedlock-sql --all-features --lib stand_in_their_file


-- ## Locks, in a complete table and in a bare one

-- Attempt(Nothing), complete
SELECT abs(min(`lock_until`, 0) - 9223372036854775807 - 1)
FROM `shedlock`
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND NOT (`lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
    AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
    AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
    AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807);
UPDATE `shedlock`
SET `lock_until` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  `locked_at` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_by` = :owner,
  shedlock_fencing_token = max(coalesce(shedlock_fencing_token, 0) + 1,
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
  shedlock_skip_from = CASE
    WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE
    WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    THEN shedlock_skip_until END
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
  AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token;

-- Attempt(Nothing), bare
SELECT abs(min(`lock_until`, 0) - 9223372036854775807 - 1)
FROM `shedlock`
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND NOT (`lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
    AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
    AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after);
UPDATE `shedlock`
SET `lock_until` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  `locked_at` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_by` = :owner
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
  AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, NULL;

-- Attempt(Slot), complete
SELECT abs(min(`lock_until`, 0) - 9223372036854775807 - 1)
FROM `shedlock`
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND NOT (`lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
    AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
    AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
    AND coalesce(shedlock_slot < :slot, 1)
    AND COALESCE(NOT (shedlock_skip_from < :slot AND :slot <= shedlock_skip_until
      AND shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
      1)
    AND :slot <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 + :tolerance
    AND (`locked_at` * 1000 < :slot OR `locked_by` LIKE '%/%/%')
    AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807);
UPDATE `shedlock`
SET `lock_until` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  `locked_at` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_by` = :owner,
  shedlock_fencing_token = max(coalesce(shedlock_fencing_token, 0) + 1,
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
  shedlock_slot = :slot,
  shedlock_slot_attempts = NULL,
  shedlock_skip_from = CASE
    WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    AND :slot <= shedlock_skip_until THEN shedlock_skip_from END,
  shedlock_skip_until = CASE
    WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    AND :slot <= shedlock_skip_until THEN shedlock_skip_until END
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
  AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  AND coalesce(shedlock_slot < :slot, 1)
  AND COALESCE(NOT (shedlock_skip_from < :slot AND :slot <= shedlock_skip_until
    AND shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
    1)
  AND :slot <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 + :tolerance
  AND (`locked_at` * 1000 < :slot OR `locked_by` LIKE '%/%/%')
  AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token;

-- Attempt(OpenSlot), complete
SELECT abs(min(`lock_until`, 0) - 9223372036854775807 - 1)
FROM `shedlock`
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND NOT (`lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
    AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
    AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
    AND coalesce(((shedlock_slot = :slot AND shedlock_slot_attempts < :most_attempts)
      OR (COALESCE(NOT (shedlock_skip_from < :slot AND :slot <= shedlock_skip_until
        AND shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
        1)
        AND (shedlock_slot IS NULL
          OR (shedlock_slot < :slot AND shedlock_slot >= :previous
            AND (:previous < 1
              OR COALESCE(CASE
                WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
                THEN shedlock_skip_from END,
                -1) = :skip_from
              AND COALESCE(CASE
                WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
                THEN shedlock_skip_until END,
                -1) = :skip_until)
            AND (COALESCE(shedlock_slot_attempts, :most_attempts) >= :most_attempts
              OR (COALESCE(`locked_by`, '') NOT LIKE '%/%/%' AND `locked_at` * 1000 >= shedlock_slot)))))),
      0)
    AND :slot <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 + :tolerance
    AND (`locked_at` * 1000 < :slot OR `locked_by` LIKE '%/%/%')
    AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807);
UPDATE `shedlock`
SET `lock_until` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  `locked_at` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_by` = :owner,
  shedlock_fencing_token = max(coalesce(shedlock_fencing_token, 0) + 1,
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
  shedlock_slot = :slot,
  shedlock_slot_attempts = CASE WHEN shedlock_slot = :slot THEN coalesce(shedlock_slot_attempts, 0) + 1 ELSE 1 END,
  shedlock_skip_from = CASE
    WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    AND :slot <= shedlock_skip_until THEN shedlock_skip_from END,
  shedlock_skip_until = CASE
    WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    AND :slot <= shedlock_skip_until THEN shedlock_skip_until END
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
  AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  AND coalesce(((shedlock_slot = :slot AND shedlock_slot_attempts < :most_attempts)
    OR (COALESCE(NOT (shedlock_skip_from < :slot AND :slot <= shedlock_skip_until
      AND shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
      1)
      AND (shedlock_slot IS NULL
        OR (shedlock_slot < :slot AND shedlock_slot >= :previous
          AND (:previous < 1
            OR COALESCE(CASE
              WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
              THEN shedlock_skip_from END,
              -1) = :skip_from
            AND COALESCE(CASE
              WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
              THEN shedlock_skip_until END,
              -1) = :skip_until)
          AND (COALESCE(shedlock_slot_attempts, :most_attempts) >= :most_attempts
            OR (COALESCE(`locked_by`, '') NOT LIKE '%/%/%' AND `locked_at` * 1000 >= shedlock_slot)))))),
    0)
  AND :slot <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 + :tolerance
  AND (`locked_at` * 1000 < :slot OR `locked_by` LIKE '%/%/%')
  AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token,
  shedlock_slot_attempts;

-- Insert(Nothing), complete
INSERT INTO `shedlock` (`name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token)
SELECT :name, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), :owner,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
WHERE CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  ON CONFLICT (`name`) DO NOTHING
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token;

-- Insert(Nothing), bare
INSERT INTO `shedlock` (`name`, `lock_until`, `locked_at`, `locked_by`)
SELECT :name, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), :owner
WHERE CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  ON CONFLICT (`name`) DO NOTHING
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, NULL;

-- Insert(Slot), complete
INSERT INTO `shedlock` (`name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot)
SELECT :name, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), :owner,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000, :slot
WHERE CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  AND :slot <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 + :tolerance
    ON CONFLICT (`name`) DO NOTHING
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token;

-- Insert(OpenSlot), complete
INSERT INTO `shedlock` (`name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot,
  shedlock_slot_attempts)
SELECT :name, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), :owner,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000, :slot, 1
WHERE CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  AND :slot <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 + :tolerance
    ON CONFLICT (`name`) DO NOTHING
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token,
  shedlock_slot_attempts;

-- Read, complete; ReadToDecide, complete
SELECT `name`, `locked_by`, CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token,
  shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until, n.now * 1000
FROM (SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) AS now) n
LEFT JOIN `shedlock` ON `name` = :name;

-- Read, bare; ReadToDecide, bare
SELECT `name`, `locked_by`, CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, NULL, NULL, NULL, NULL,
  NULL, NULL, n.now * 1000
FROM (SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) AS now) n
LEFT JOIN `shedlock` ON `name` = :name;

-- Extend
UPDATE `shedlock`
SET `lock_until` = max(`lock_until`,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000)
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
RETURNING CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END;

-- Unlock(Nothing)
UPDATE `shedlock`
SET `lock_until` = max(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_at` + :at_least / 1000),
  `locked_by` = :released
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- Unlock(Done { durable: false }), complete; Unlock(Done { durable: true }), complete
UPDATE `shedlock`
SET `lock_until` = max(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_at` + :at_least / 1000),
  `locked_by` = :released,
  shedlock_slot_done = CASE WHEN shedlock_slot_done > :slot THEN shedlock_slot_done ELSE :slot END,
  shedlock_slot_attempts = NULL
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- Unlock(Failed), complete
UPDATE `shedlock`
SET `lock_until` = max(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_at` + :at_least / 1000,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000),
  `locked_by` = :released
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- Unlock(NotStarted), complete
UPDATE `shedlock`
SET `lock_until` = max(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_at` + :at_least / 1000),
  `locked_by` = :released,
  shedlock_slot = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts IS NULL
    AND COALESCE(shedlock_slot_done, -1) <> :slot THEN :previous ELSE shedlock_slot END,
  shedlock_slot_attempts = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts > 0
    THEN shedlock_slot_attempts - 1 ELSE shedlock_slot_attempts END
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner;

-- Unlock(Cut), complete
UPDATE `shedlock`
SET `lock_until` = max(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_at` + :at_least / 1000),
  `locked_by` = :released,
  shedlock_slot_attempts = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts > 0
    THEN shedlock_slot_attempts - 1 ELSE shedlock_slot_attempts END
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- Withdraw
UPDATE `shedlock`
SET `lock_until` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_by` = :released
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- List { held_only: false }, complete
SELECT `name`, `locked_by`, CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token,
  shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM `shedlock`
WHERE `name` COLLATE BINARY > :after
ORDER BY `name` COLLATE BINARY LIMIT :limit;

-- List { held_only: false }, bare
SELECT `name`, `locked_by`, CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, NULL, NULL, NULL, NULL,
  NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM `shedlock`
WHERE `name` COLLATE BINARY > :after
ORDER BY `name` COLLATE BINARY LIMIT :limit;

-- List { held_only: true }, complete
SELECT `name`, `locked_by`, CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token,
  shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM `shedlock`
WHERE `name` COLLATE BINARY > :after
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
ORDER BY `name` COLLATE BINARY LIMIT :limit;

-- List { held_only: true }, bare
SELECT `name`, `locked_by`, CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, NULL, NULL, NULL, NULL,
  NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM `shedlock`
WHERE `name` COLLATE BINARY > :after
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
ORDER BY `name` COLLATE BINARY LIMIT :limit;

-- ResetSlot, complete
UPDATE `shedlock`
SET shedlock_slot = NULLIF(:slot, -1),
  shedlock_slot_done = NULLIF(:done, -1),
  shedlock_slot_attempts = NULLIF(:attempts, -1),
  shedlock_skip_from = NULLIF(:skip_from, -1),
  shedlock_skip_until = NULLIF(:skip_until, -1)
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND COALESCE(shedlock_slot, -1) = :previous
  AND COALESCE(shedlock_slot_attempts, -1) = :seen_attempts
  AND COALESCE(shedlock_skip_until, -1) = :seen_skip_until;

-- Pause, complete
UPDATE `shedlock`
SET `lock_until` = :ends_at / 1000,
  `locked_at` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_by` = :released,
  shedlock_fencing_token = max(coalesce(shedlock_fencing_token, 0) + 1,
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
  shedlock_skip_from = NULLIF(:skip_from, -1),
  shedlock_skip_until = NULLIF(:skip_until, -1)
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND COALESCE(CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, -1) = :until
  AND COALESCE(shedlock_slot, -1) = :previous;

-- Pause, bare
UPDATE `shedlock`
SET `lock_until` = :ends_at / 1000,
  `locked_at` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `locked_by` = :released
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND COALESCE(CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, -1) = :until;

-- Resume, complete
UPDATE `shedlock`
SET `lock_until` = max(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), :ends_at / 1000),
  `locked_by` = :released,
  shedlock_skip_from = NULLIF(:skip_from, -1),
  shedlock_skip_until = NULLIF(:skip_until, -1)
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- Resume, bare
UPDATE `shedlock`
SET `lock_until` = max(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), :ends_at / 1000),
  `locked_by` = :released
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- Remove, complete
DELETE
FROM `shedlock`
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND COALESCE(CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, -1) = :until
  AND COALESCE(shedlock_slot, -1) = :previous
  AND `lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- Remove, bare
DELETE
FROM `shedlock`
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND COALESCE(CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, -1) = :until
  AND `lock_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);


-- ## The table

-- the columns
SELECT c.name,
  lower(trim(CASE WHEN instr(c.type, '(') > 0 THEN substr(c.type, 1, instr(c.type, '(') - 1) ELSE c.type END)), NULL,
    NULL, NULL,
    EXISTS (SELECT 1 FROM pragma_index_list('shedlock') l WHERE l."unique" = 1 AND l.partial = 0
      AND (SELECT count(*) FROM pragma_index_info(l.name)) = 1
      AND (SELECT i.name FROM pragma_index_info(l.name) i) = c.name),
    c."notnull" = 1 AND c.dflt_value IS NULL AND c.pk = 0,
    sqlite_version() || CASE WHEN (SELECT synchronous FROM pragma_synchronous) = 0
      OR (SELECT journal_mode FROM pragma_journal_mode) IN ('off', 'memory')
      THEN ', synchronous or journal_mode is off or in memory' WHEN (SELECT synchronous FROM pragma_synchronous) = 1
      AND (SELECT journal_mode FROM pragma_journal_mode) = 'wal' THEN ', synchronous is NORMAL in WAL mode'
      ELSE '' END,
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000, '', NULL
    FROM pragma_table_info('shedlock') c ORDER BY c.cid;

-- a missing table
CREATE TABLE `shedlock` (
    `name` varchar(64) NOT NULL PRIMARY KEY,
    `lock_until` integer NOT NULL,
    `locked_at` integer NOT NULL,
    `locked_by` varchar(255) NOT NULL,
    shedlock_fencing_token bigint NULL,
    shedlock_slot bigint NULL,
    shedlock_slot_done bigint NULL,
    shedlock_slot_attempts bigint NULL,
    shedlock_skip_from bigint NULL,
    shedlock_skip_until bigint NULL
);

-- add column "shedlock_fencing_token" to table "shedlock"
ALTER TABLE `shedlock`
    ADD COLUMN shedlock_fencing_token bigint NULL;

-- add column "shedlock_slot" to table "shedlock"
ALTER TABLE `shedlock`
    ADD COLUMN shedlock_slot bigint NULL;

-- add column "shedlock_slot_done" to table "shedlock"
ALTER TABLE `shedlock`
    ADD COLUMN shedlock_slot_done bigint NULL;

-- add column "shedlock_slot_attempts" to table "shedlock"
ALTER TABLE `shedlock`
    ADD COLUMN shedlock_slot_attempts bigint NULL;

-- add column "shedlock_skip_from" to table "shedlock"
ALTER TABLE `shedlock`
    ADD COLUMN shedlock_skip_from bigint NULL;

-- add column "shedlock_skip_until" to table "shedlock"
ALTER TABLE `shedlock`
    ADD COLUMN shedlock_skip_until bigint NULL;

-- a rehearsal that writes nothing, complete
INSERT INTO `shedlock` (`name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot,
  shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until)
SELECT `name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot, shedlock_slot_done,
  shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until
FROM `shedlock`
WHERE 1 = 0;

-- a rehearsal that writes nothing, complete
UPDATE `shedlock`
SET `lock_until` = `lock_until`,
  `locked_at` = `locked_at`,
  `locked_by` = `locked_by`,
  shedlock_fencing_token = shedlock_fencing_token,
  shedlock_slot = shedlock_slot,
  shedlock_slot_done = shedlock_slot_done,
  shedlock_slot_attempts = shedlock_slot_attempts,
  shedlock_skip_from = shedlock_skip_from,
  shedlock_skip_until = shedlock_skip_until
WHERE 1 = 0;

-- a rehearsal that writes nothing, bare
INSERT INTO `shedlock` (`name`, `lock_until`, `locked_at`, `locked_by`)
SELECT `name`, `lock_until`, `locked_at`, `locked_by`
FROM `shedlock`
WHERE 1 = 0;

-- a rehearsal that writes nothing, bare
UPDATE `shedlock` SET `lock_until` = `lock_until`, `locked_at` = `locked_at`, `locked_by` = `locked_by` WHERE 1 = 0;

-- whether a schema exists
SELECT CASE WHEN EXISTS (SELECT 1 FROM pragma_database_list WHERE name = 'jobs') THEN 'x' ELSE '' END;

-- other lock tables
SELECT NULL, m.name
FROM sqlite_master m
WHERE m.type = 'table'
  AND lower(m.name) <> lower('shedlock')
  AND (SELECT count(*) FROM pragma_table_info(m.name) p
    WHERE lower(p.name) IN ('name', 'lock_until', 'locked_at', 'locked_by')) = 4
ORDER BY 2 LIMIT 6;

-- when a table was used last
SELECT MAX(CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END) FROM `shedlock`;

-- names in both
SELECT `name`
FROM `shedlock`
WHERE `name` COLLATE BINARY IN (SELECT `name` COLLATE BINARY FROM `shedlock`)
ORDER BY `name` LIMIT 6;

-- what Java took lately
SELECT `name`, `locked_by`
FROM `shedlock`
WHERE `locked_by` NOT LIKE '%/%/%'
  AND CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000
    ELSE `locked_at` END > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 - 3024000000000
ORDER BY `locked_at` DESC LIMIT 1;


-- ## The server

-- before each statement on a connection that is not ours
BEGIN; ROLLBACK;

-- to make space on a full disk
PRAGMA wal_checkpoint(PASSIVE);


-- ## The journal's tables

-- create table "shedlock_journal"
CREATE TABLE `shedlock_journal` (
    version bigint NOT NULL PRIMARY KEY,
    identity varchar(64) NOT NULL
);

-- create table "shedlock_job"
CREATE TABLE `shedlock_job` (
    job varchar(255) NOT NULL PRIMARY KEY,
    schedule varchar(255) NULL,
    zone varchar(255) NULL,
    lock_at_most_us bigint NULL,
    registered_us bigint NOT NULL,
    last_started_us bigint NULL,
    last_name varchar(255) NULL,
    last_owner varchar(255) NULL,
    last_lock_at_most_us bigint NULL,
    last_slot_us bigint NULL,
    last_lock_store varchar(255) NULL,
    last_outcome varchar(16) NULL,
    last_succeeded_us bigint NULL,
    last_failed_us bigint NULL,
    last_error varchar(1024) NULL,
    last_duration_us bigint NULL,
    next_slot_us bigint NULL,
    deadline_us bigint NULL,
    registered_by varchar(255) NULL,
    other_by varchar(255) NULL,
    other_at_us bigint NULL,
    other_schedule varchar(255) NULL,
    other_zone varchar(255) NULL,
    other_lock_at_most_us bigint NULL,
    elsewhere_slot_us bigint NULL,
    elsewhere_at_us bigint NULL,
    elsewhere_by varchar(255) NULL,
    elsewhere_slots bigint NULL,
    watched_elsewhere bigint NULL
);

-- create table "shedlock_run"
CREATE TABLE `shedlock_run` (
    id varchar(64) NOT NULL PRIMARY KEY,
    job varchar(255) NOT NULL,
    name varchar(255) NOT NULL,
    owner varchar(255) NOT NULL,
    slot_us bigint NULL,
    attempt bigint NULL,
    fencing_token bigint NULL,
    started_us bigint NOT NULL,
    lock_at_most_us bigint NULL,
    lock_store varchar(255) NULL,
    ran_for_us bigint NULL,
    outcome varchar(16) NULL,
    error varchar(2048) NULL
);

-- create index "shedlock_run_job" on table "shedlock_run"
CREATE INDEX `shedlock_run_job` ON `shedlock_run` (job, started_us, id);

-- create index "shedlock_run_name" on table "shedlock_run"
CREATE INDEX `shedlock_run_name` ON `shedlock_run` (name, started_us, id);

-- create index "shedlock_run_outcome" on table "shedlock_run"
CREATE INDEX `shedlock_run_outcome` ON `shedlock_run` (outcome, started_us, id);

-- create index "shedlock_run_started_us" on table "shedlock_run"
CREATE INDEX `shedlock_run_started_us` ON `shedlock_run` (started_us, id);

-- create table "shedlock_audit"
CREATE TABLE `shedlock_audit` (
    id varchar(64) NOT NULL PRIMARY KEY,
    at_us bigint NOT NULL,
    actor varchar(255) NOT NULL,
    is_authenticated bigint NOT NULL,
    action varchar(16) NOT NULL,
    name varchar(255) NOT NULL,
    detail varchar(1024) NOT NULL,
    reason varchar(1024) NULL,
    until_us bigint NULL,
    lock_store varchar(255) NULL
);

-- create index "shedlock_audit_name" on table "shedlock_audit"
CREATE INDEX `shedlock_audit_name` ON `shedlock_audit` (name, id);

-- record version 1 of the journal
INSERT INTO `shedlock_journal` (version, identity)
SELECT 1, lower(hex(randomblob(16)))
FROM (SELECT 1 AS one) AS n
WHERE NOT EXISTS (SELECT 1 FROM `shedlock_journal`);


-- ## The journal

-- around a transaction; the same in a session that is not ours
BEGIN IMMEDIATE;

-- around a transaction; the same in a session that is not ours
COMMIT;

-- clock
SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000;

-- version
SELECT version FROM `shedlock_journal`;

-- identity
SELECT identity FROM `shedlock_journal`;

-- version_insert
INSERT INTO `shedlock_journal` (version, identity)
SELECT :j_version, lower(hex(randomblob(16)))
FROM (SELECT 1 AS one) AS n
WHERE NOT EXISTS (SELECT 1 FROM `shedlock_journal`);

-- job; job_for_update
SELECT job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name, last_owner,
  last_lock_at_most_us, last_slot_us, last_lock_store, last_outcome, last_succeeded_us, last_failed_us, last_error,
  last_duration_us, next_slot_us, deadline_us, registered_by, other_by, other_at_us, other_schedule, other_zone,
  other_lock_at_most_us, elsewhere_slot_us, elsewhere_at_us, elsewhere_by, elsewhere_slots, watched_elsewhere
FROM `shedlock_job`
WHERE job = :j_job;

-- jobs
SELECT job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name, last_owner,
  last_lock_at_most_us, last_slot_us, last_lock_store, last_outcome, last_succeeded_us, last_failed_us, last_error,
  last_duration_us, next_slot_us, deadline_us, registered_by, other_by, other_at_us, other_schedule, other_zone,
  other_lock_at_most_us, elsewhere_slot_us, elsewhere_at_us, elsewhere_by, elsewhere_slots, watched_elsewhere
FROM `shedlock_job`
WHERE job > :j_after
ORDER BY job LIMIT :j_limit;

-- job_is_there
SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000,
  (SELECT COUNT(*) FROM `shedlock_job` WHERE job = :j_job);

-- job_insert
INSERT INTO `shedlock_job` (job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name,
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
UPDATE `shedlock_job`
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
FROM `shedlock_run`
WHERE id = :j_id;

-- run_insert
INSERT INTO `shedlock_run` (id, job, name, owner, slot_us, attempt, fencing_token, started_us, lock_at_most_us,
  lock_store, ran_for_us, outcome, error)
VALUES (:j_id, :j_job, :j_name, :j_owner, NULLIF(:j_slot_us, -1), NULLIF(:j_attempt, -1),
  NULLIF(:j_fencing_token, -1), :j_started_us, NULLIF(:j_lock_at_most_us, -1), NULLIF(:j_lock_store, ''),
  NULLIF(:j_ran_for_us, -1), NULLIF(:j_outcome, ''), NULLIF(:j_error, ''));

-- run_update
UPDATE `shedlock_run`
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
INSERT INTO `shedlock_audit` (id, at_us, actor, is_authenticated, action, name, detail, reason, until_us, lock_store)
VALUES (:j_id, :j_at_us, :j_actor, :j_is_authenticated, :j_action, :j_name, :j_detail, NULLIF(:j_reason, ''),
  NULLIF(:j_until_us, -1), NULLIF(:j_lock_store, ''))
  ON CONFLICT DO NOTHING;

-- first_excess
SELECT id, started_us FROM `shedlock_run` WHERE job = :j_job ORDER BY started_us DESC, id DESC LIMIT 1 OFFSET :j_keep;

-- prune_runs
DELETE
FROM `shedlock_run`
WHERE id IN (SELECT id
  FROM (SELECT id FROM `shedlock_run` WHERE job = :j_job AND started_us <= :j_started
    AND (started_us < :j_started OR id <= :j_id) ORDER BY started_us, id LIMIT :j_limit) AS excess);

-- prune_old_runs
DELETE
FROM `shedlock_run`
WHERE id IN (SELECT id
  FROM (SELECT id FROM `shedlock_run` WHERE started_us < :j_started ORDER BY started_us, id LIMIT :j_limit) AS old);

-- prune_old_audit
DELETE
FROM `shedlock_audit`
WHERE id IN (SELECT id FROM (SELECT id FROM `shedlock_audit` WHERE id < :j_id ORDER BY id LIMIT :j_limit) AS old);

-- forget_runs
DELETE FROM `shedlock_run` WHERE job = :j_job;

-- forget_job
DELETE FROM `shedlock_job` WHERE job = :j_job;

-- all runs
SELECT id, job, name, owner, slot_us, attempt, fencing_token, started_us, lock_at_most_us, lock_store, ran_for_us,
  outcome, error
FROM `shedlock_run`
WHERE 1 = 1
ORDER BY started_us DESC, id DESC LIMIT :j_limit;

-- some runs
SELECT id, job, name, owner, slot_us, attempt, fencing_token, started_us, lock_at_most_us, lock_store, ran_for_us,
  outcome, error
FROM `shedlock_run`
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
FROM `shedlock_audit`
WHERE 1 = 1
ORDER BY id DESC LIMIT :j_limit;

-- some records
SELECT id, at_us, actor, is_authenticated, action, name, detail, reason, until_us, lock_store
FROM `shedlock_audit`
WHERE 1 = 1
  AND name = :j_name
  AND id < :j_id
ORDER BY id DESC LIMIT :j_limit;

-- whether this user may SELECT on _journal
SELECT 1 FROM `shedlock_journal` WHERE 1 = 0;

-- whether this user may SELECT on _job
SELECT 1 FROM `shedlock_job` WHERE 1 = 0;

-- whether this user may INSERT on _job
INSERT INTO `shedlock_job` (job, registered_us) SELECT '', 0 FROM (SELECT 1 AS one) AS n WHERE 1 = 0;

-- whether this user may UPDATE on _job
UPDATE `shedlock_job` SET last_error = '' WHERE 1 = 0;

-- whether this user may SELECT on _run
SELECT 1 FROM `shedlock_run` WHERE 1 = 0;

-- whether this user may INSERT on _run
INSERT INTO `shedlock_run` (id, job, name, owner, started_us)
SELECT '', '', '', '', 0
FROM (SELECT 1 AS one) AS n
WHERE 1 = 0;

-- whether this user may UPDATE on _run
UPDATE `shedlock_run` SET error = '' WHERE 1 = 0;

-- whether this user may DELETE on _run
DELETE FROM `shedlock_run` WHERE 1 = 0;

-- whether this user may SELECT on _audit
SELECT 1 FROM `shedlock_audit` WHERE 1 = 0;

-- whether this user may INSERT on _audit
INSERT INTO `shedlock_audit` (id, at_us, actor, is_authenticated, action, name, detail)
SELECT '', 0, '', 0, '', '', ''
FROM (SELECT 1 AS one) AS n
WHERE 1 = 0;


-- ## Some statements that differ: a name whose collation is not exact


-- ## Some statements that differ: time=client

-- Attempt(Nothing)
SELECT abs(min(`lock_until`, 0) - 9223372036854775807 - 1)
FROM `shedlock`
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND NOT (`lock_until` <= (:now / 1000) AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
    AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
    AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807);
UPDATE `shedlock`
SET `lock_until` = (:now / 1000) + :at_most / 1000,
  `locked_at` = (:now / 1000),
  `locked_by` = :owner,
  shedlock_fencing_token = max(coalesce(shedlock_fencing_token, 0) + 1, (:now / 1000) * 1000),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= (:now / 1000) * 1000 + :skew THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= (:now / 1000) * 1000 + :skew THEN shedlock_skip_until END
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `lock_until` <= (:now / 1000)
  AND coalesce(`locked_by`, '') NOT IN (:released, :freed)
  AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807
RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token;

-- ReadToDecide
SELECT `name`, `locked_by`, CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token,
  shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until, n.now * 1000,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM (SELECT (:now / 1000) AS now) n
LEFT JOIN `shedlock` ON `name` = :name;

-- Extend
UPDATE `shedlock`
SET `lock_until` = max(`lock_until`, (:now / 1000) + :at_most / 1000)
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > (:now / 1000)
RETURNING CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END;

-- Unlock(Failed)
UPDATE `shedlock`
SET `lock_until` = max((:now / 1000), `locked_at` + :at_least / 1000, (:now / 1000) + :at_most / 1000),
  `locked_by` = :released
WHERE `name` = :name
  AND `name` COLLATE BINARY = :name
  AND `locked_by` = :owner
  AND `lock_until` > (:now / 1000);

-- List { held_only: true }
SELECT `name`, `locked_by`, CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 ELSE `locked_at` END,
  CASE typeof(`lock_until`) WHEN 'integer' THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token,
  shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until,
  (:now / 1000) * 1000
FROM `shedlock`
WHERE `name` COLLATE BINARY > :after
  AND `lock_until` > (:now / 1000)
ORDER BY `name` COLLATE BINARY LIMIT :limit;


-- ## Some statements that differ: other names

-- Attempt(Nothing)
SELECT abs(min(`Until`, 0) - 9223372036854775807 - 1)
FROM `jobs`.`Locks`
WHERE `Name` = :name
  AND `Name` COLLATE BINARY = :name
  AND NOT (`Until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
    AND coalesce(`Holder`, '') NOT IN (:released, :freed)
    AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
    AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807);
UPDATE `jobs`.`Locks`
SET `Until` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  `Since` = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
  `Holder` = :owner,
  shedlock_fencing_token = max(coalesce(shedlock_fencing_token, 0) + 1,
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000),
  shedlock_skip_from = CASE
    WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE
    WHEN shedlock_skip_until <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
    THEN shedlock_skip_until END
WHERE `Name` = :name
  AND `Name` COLLATE BINARY = :name
  AND `Until` <= CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  AND coalesce(`Holder`, '') NOT IN (:released, :freed)
  AND CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807
RETURNING CASE typeof(`Since`) WHEN 'integer' THEN `Since` * 1000 ELSE `Since` END,
  CASE typeof(`Until`) WHEN 'integer' THEN `Until` * 1000 ELSE `Until` END, shedlock_fencing_token;

-- Insert(Nothing)
INSERT INTO `jobs`.`Locks` (`Name`, `Until`, `Since`, `Holder`, shedlock_fencing_token)
SELECT :name, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + :at_most / 1000,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), :owner,
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
WHERE CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 <= :not_after
  ON CONFLICT (`Name`) DO NOTHING
RETURNING CASE typeof(`Since`) WHEN 'integer' THEN `Since` * 1000 ELSE `Since` END,
  CASE typeof(`Until`) WHEN 'integer' THEN `Until` * 1000 ELSE `Until` END, shedlock_fencing_token;
