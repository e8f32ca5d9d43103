-- The statements for MySQL and MariaDB. `:word` stands for a value.
-- A test compares this file with what the code makes, and writes it with
-- SHEDLOCK_STATEMENTS=record cargo test -p shedlock-sql --all-features --lib stand_in_their_file


-- ## Locks, in a complete table and in a bare one

-- Attempt(Nothing), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Attempt(Nothing), bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :owner
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Attempt(Slot), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_slot_attempts = NULL,
  shedlock_slot = :slot,
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    AND :slot <= shedlock_skip_until THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    AND :slot <= shedlock_skip_until THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND COALESCE(shedlock_slot < :slot, 1)
  AND COALESCE(NOT (shedlock_skip_from < :slot AND :slot <= shedlock_skip_until
    AND shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))),
    1)
  AND :slot <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :tolerance
  AND (COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), 0) < :slot OR `locked_by` LIKE '%/%/%')
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Attempt(OpenSlot), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_slot_attempts = IF(COALESCE(shedlock_slot = :slot, 0), COALESCE(shedlock_slot_attempts, 0) + 1, 1),
  shedlock_slot = :slot,
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    AND :slot <= shedlock_skip_until THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    AND :slot <= shedlock_skip_until THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND ((shedlock_slot = :slot AND shedlock_slot_attempts < :most_attempts)
    OR (COALESCE(NOT (shedlock_skip_from < :slot AND :slot <= shedlock_skip_until
      AND shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))),
      1)
      AND (shedlock_slot IS NULL
        OR (shedlock_slot < :slot AND shedlock_slot >= :previous
          AND (:previous < 1
            OR COALESCE(CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
              THEN shedlock_skip_from END,
              -1) = :skip_from
            AND COALESCE(CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
              THEN shedlock_skip_until END,
              -1) = :skip_until)
          AND (COALESCE(shedlock_slot_attempts, :most_attempts) >= :most_attempts
            OR (COALESCE(`locked_by`, '') NOT LIKE '%/%/%'
              AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) >= shedlock_slot))))))
  AND :slot <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :tolerance
  AND (COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), 0) < :slot OR `locked_by` LIKE '%/%/%')
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Insert(Nothing), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */ INSERT /*+ SET_VAR(time_zone = '+00:00') */ INTO `shedlock` (`name`,
  `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token)
SELECT :name,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07'),
  CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), :owner,
  LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0 OR n.differs) > 0
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after;

-- Insert(Nothing), bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */ INSERT /*+ SET_VAR(time_zone = '+00:00') */ INTO `shedlock` (`name`,
  `lock_until`, `locked_at`, `locked_by`)
SELECT :name,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07'),
  CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), :owner
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0 OR n.differs) > 0
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after;

-- Insert(Slot), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */ INSERT /*+ SET_VAR(time_zone = '+00:00') */ INTO `shedlock` (`name`,
  `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot)
SELECT :name,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07'),
  CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), :owner,
  LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), :slot
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0 OR n.differs) > 0
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND :slot <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :tolerance;

-- Insert(OpenSlot), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */ INSERT /*+ SET_VAR(time_zone = '+00:00') */ INTO `shedlock` (`name`,
  `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot_attempts, shedlock_slot)
SELECT :name,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07'),
  CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), :owner,
  LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), 1, :slot
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0 OR n.differs) > 0
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND :slot <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :tolerance;

-- Read, complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM (SELECT 1 AS one) AS n
LEFT JOIN `shedlock` ON `name` = :name
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Read, bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED),
  CAST(NULL AS SIGNED), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM (SELECT 1 AS one) AS n
LEFT JOIN `shedlock` ON `name` = :name
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- ReadToDecide, complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM (SELECT 1 AS one) AS n
LEFT JOIN (SELECT `name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot,
  shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until FROM `shedlock`
  WHERE `name` = :name LIMIT 1) AS r
  ON `name` = :name
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0 FOR UPDATE;

-- ReadToDecide, bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED),
  CAST(NULL AS SIGNED), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM (SELECT 1 AS one) AS n
LEFT JOIN (SELECT `name`, `lock_until`, `locked_at`, `locked_by` FROM `shedlock` WHERE `name` = :name LIMIT 1) AS r
  ON `name` = :name
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0 FOR UPDATE;

-- Extend
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(`lock_until`,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Nothing), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Nothing), bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(`locked_at` + INTERVAL 1000 + :at_least + 999 MICROSECOND, 23) AS DATETIME(3)))),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Done { durable: false }), complete; Unlock(Done { durable: true }), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  `locked_at` = `locked_at`,
  `locked_by` = :released,
  shedlock_slot_done = CASE WHEN shedlock_slot_done > :slot THEN shedlock_slot_done ELSE :slot END,
  shedlock_slot_attempts = NULL
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Failed), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(NotStarted), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  `locked_at` = `locked_at`,
  `locked_by` = :released,
  shedlock_slot = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts IS NULL
    AND COALESCE(shedlock_slot_done, -1) <> :slot THEN :previous ELSE shedlock_slot END,
  shedlock_slot_attempts = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts > 0
    THEN shedlock_slot_attempts - 1 ELSE shedlock_slot_attempts END
WHERE `name` = :name
  AND `locked_by` = :owner
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Cut), complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  `locked_at` = `locked_at`,
  `locked_by` = :released,
  shedlock_slot_attempts = CASE WHEN shedlock_slot = :slot AND shedlock_slot_attempts > 0
    THEN shedlock_slot_attempts - 1 ELSE shedlock_slot_attempts END
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Withdraw
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Settle
/*M! SET STATEMENT time_zone = '+00:00' FOR */ INSERT /*+ SET_VAR(time_zone = '+00:00') */ INTO `shedlock` (`name`,
  `lock_until`, `locked_at`, `locked_by`)
SELECT :name, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  :released
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0 OR n.differs) > 0;

-- List { held_only: false }, complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM `shedlock`
WHERE `name` > :after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0
ORDER BY `name` LIMIT :limit;

-- List { held_only: false }, bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED),
  CAST(NULL AS SIGNED), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM `shedlock`
WHERE `name` > :after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0
ORDER BY `name` LIMIT :limit;

-- List { held_only: true }, complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM `shedlock`
WHERE `name` > :after
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0
ORDER BY `name` LIMIT :limit;

-- List { held_only: true }, bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED), CAST(NULL AS SIGNED),
  CAST(NULL AS SIGNED), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM `shedlock`
WHERE `name` > :after
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0
ORDER BY `name` LIMIT :limit;

-- ResetSlot, complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = `lock_until`,
  `locked_at` = `locked_at`,
  shedlock_slot = NULLIF(:slot, -1),
  shedlock_slot_done = NULLIF(:done, -1),
  shedlock_slot_attempts = NULLIF(:attempts, -1),
  shedlock_skip_from = NULLIF(:skip_from, -1),
  shedlock_skip_until = NULLIF(:skip_until, -1)
WHERE `name` = :name
  AND COALESCE(shedlock_slot, -1) = :previous
  AND COALESCE(shedlock_slot_attempts, -1) = :seen_attempts
  AND COALESCE(shedlock_skip_until, -1) = :seen_skip_until
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Pause, complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :ends_at + 999 MICROSECOND,
  23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :released,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = NULLIF(:skip_from, -1),
  shedlock_skip_until = NULLIF(:skip_until, -1)
WHERE `name` = :name
  AND `locked_by` = :owner
  AND COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`), -1) = :until
  AND COALESCE(shedlock_slot, -1) = :previous
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Pause, bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :ends_at + 999 MICROSECOND,
  23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`), -1) = :until
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Resume, complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  LEAST(CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :ends_at + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released,
  shedlock_skip_from = NULLIF(:skip_from, -1),
  shedlock_skip_until = NULLIF(:skip_until, -1)
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Resume, bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  LEAST(CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :ends_at + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Remove, complete
/*M! SET STATEMENT time_zone = '+00:00' FOR */ DELETE /*+ SET_VAR(time_zone = '+00:00') */
FROM `shedlock`
WHERE `name` = :name
  AND `locked_by` = :owner
  AND COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`), -1) = :until
  AND COALESCE(shedlock_slot, -1) = :previous
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Remove, bare
/*M! SET STATEMENT time_zone = '+00:00' FOR */ DELETE /*+ SET_VAR(time_zone = '+00:00') */
FROM `shedlock`
WHERE `name` = :name
  AND `locked_by` = :owner
  AND COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`), -1) = :until
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;


-- ## The table

-- the columns
SELECT CAST(c.COLUMN_NAME AS CHAR), LOWER(CAST(c.DATA_TYPE AS CHAR)), CAST(c.DATETIME_PRECISION AS SIGNED),
  CAST(c.CHARACTER_MAXIMUM_LENGTH AS SIGNED), CAST(c.COLLATION_NAME AS CHAR), CAST(u.alone IS NOT NULL AS SIGNED),
  CAST(c.IS_NULLABLE = 'NO' AND c.COLUMN_DEFAULT IS NULL AND LOWER(c.EXTRA) NOT LIKE '%auto_increment%'
    AND LOWER(c.EXTRA) NOT LIKE '%generated%' AS SIGNED),
  CONCAT(VERSION(), ', sessions start with time_zone ', @@global.time_zone,
    IF(COALESCE(CONVERT_TZ('2027-01-01 00:00:00', '+00:00', @@global.time_zone) = '2027-01-01 00:00:00', 0)
      AND COALESCE(CONVERT_TZ('2027-07-01 00:00:00', '+00:00', @@global.time_zone) = '2027-07-01 00:00:00', 0), '',
      ', which is not UTC'),
    IF(v.flush NOT IN ('1', '3'), ', innodb_flush_log_at_trx_commit is not 1', ''),
    IF(v.log_bin = 'ON' AND v.flush_binlog <> '1', ', sync_binlog is not 1', ''),
    IF(v.log_bin = 'ON' AND v.format = 'STATEMENT', ', binlog_format is STATEMENT', ''),
    IF(v.wsrep = 'ON' AND v.provider NOT IN ('', 'none'), ', wsrep_on is ON', ''),
    IF(v.team <> '', ', group_replication_group_name is set', '')),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
  CONCAT(@@hostname, ':', @@port, '/', CAST(c.TABLE_SCHEMA AS CHAR)), CAST(DATABASE() AS CHAR)
FROM information_schema.COLUMNS c CROSS JOIN (SELECT MAX(IF(LOWER(VARIABLE_NAME) = 'innodb_flush_log_at_trx_commit',
  VARIABLE_VALUE, NULL)) AS flush,
  MAX(IF(LOWER(VARIABLE_NAME) = 'sync_binlog', VARIABLE_VALUE, NULL)) AS flush_binlog,
  MAX(IF(LOWER(VARIABLE_NAME) = 'log_bin', VARIABLE_VALUE, NULL)) AS log_bin,
  MAX(IF(LOWER(VARIABLE_NAME) = 'binlog_format', VARIABLE_VALUE, NULL)) AS format,
  MAX(IF(LOWER(VARIABLE_NAME) = 'wsrep_on', VARIABLE_VALUE, NULL)) AS wsrep,
  MAX(IF(LOWER(VARIABLE_NAME) = 'wsrep_provider', VARIABLE_VALUE, NULL)) AS provider,
  MAX(IF(LOWER(VARIABLE_NAME) = 'group_replication_group_name', VARIABLE_VALUE, NULL)) AS team
  FROM /*M! information_schema.SESSION_VARIABLES */ /*!50700 performance_schema.session_variables */) v
  LEFT JOIN (SELECT DISTINCT MIN(s.COLUMN_NAME) AS alone FROM information_schema.STATISTICS s
    WHERE s.TABLE_SCHEMA = DATABASE() AND s.TABLE_NAME = 'shedlock'
    AND (@@lower_case_table_names > 0 OR CAST(s.TABLE_NAME AS BINARY) = CAST('shedlock' AS BINARY))
    GROUP BY s.INDEX_NAME HAVING COUNT(*) = 1 AND MAX(s.NON_UNIQUE) = 0 AND COUNT(s.SUB_PART) = 0) u
  ON u.alone = c.COLUMN_NAME WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME = 'shedlock'
  AND (@@lower_case_table_names > 0
    OR CAST(c.TABLE_NAME AS BINARY) = CAST('shedlock' AS BINARY)) ORDER BY c.ORDINAL_POSITION;

-- a missing table
CREATE TABLE `shedlock` (
    `name` VARCHAR(64) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL PRIMARY KEY,
    `lock_until` TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    `locked_at` TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    `locked_by` VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
    shedlock_fencing_token BIGINT NULL,
    shedlock_slot BIGINT NULL,
    shedlock_slot_done BIGINT NULL,
    shedlock_slot_attempts BIGINT NULL,
    shedlock_skip_from BIGINT NULL,
    shedlock_skip_until BIGINT NULL
) ENGINE = InnoDB;

-- add columns "shedlock_fencing_token", "shedlock_slot", "shedlock_slot_done", "shedlock_slot_attempts", "shedlock_skip_from", "shedlock_skip_until" to table "shedlock"
ALTER TABLE `shedlock`
    ADD COLUMN shedlock_fencing_token BIGINT NULL,
    ADD COLUMN shedlock_slot BIGINT NULL,
    ADD COLUMN shedlock_slot_done BIGINT NULL,
    ADD COLUMN shedlock_slot_attempts BIGINT NULL,
    ADD COLUMN shedlock_skip_from BIGINT NULL,
    ADD COLUMN shedlock_skip_until BIGINT NULL;

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
SELECT CASE WHEN EXISTS (SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'jobs') THEN 'x' ELSE '' END;

-- other lock tables
SELECT NULL, CAST(c.TABLE_NAME AS CHAR)
FROM information_schema.COLUMNS c
WHERE c.TABLE_SCHEMA = DATABASE()
  AND LOWER(c.COLUMN_NAME) IN ('name', 'lock_until', 'locked_at', 'locked_by')
  AND NOT (c.TABLE_NAME = 'shedlock'
    AND (@@lower_case_table_names > 0 OR CAST(c.TABLE_NAME AS BINARY) = CAST('shedlock' AS BINARY)))
  AND EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = c.TABLE_SCHEMA
    AND t.TABLE_NAME = c.TABLE_NAME AND t.TABLE_TYPE = 'BASE TABLE')
GROUP BY c.TABLE_NAME HAVING COUNT(*) = 4
ORDER BY 2 LIMIT 6;

-- when a table was used last
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ MAX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`))
FROM `shedlock`;

-- names in both
SELECT CONVERT(`name` USING utf8mb4)
FROM `shedlock`
WHERE CAST(CONVERT(`name` USING utf8mb4) AS BINARY) IN (SELECT CAST(CONVERT(`name` USING utf8mb4) AS BINARY)
  FROM `shedlock`)
ORDER BY `name` LIMIT 6;

-- what Java took lately
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), `locked_by`
FROM `shedlock`
WHERE `locked_by` NOT LIKE '%/%/%'
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) > TIMESTAMPDIFF(MICROSECOND, '1970-01-01',
    UTC_TIMESTAMP(6)) - 3024000000000
ORDER BY `locked_at` DESC LIMIT 1;


-- ## The server

-- a new session
SET SESSION innodb_lock_wait_timeout = CAST(LEAST(@@innodb_lock_wait_timeout, 5) AS SIGNED), SESSION autocommit = 1;

-- before each statement on a connection that is not ours
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; COMMIT AND NO CHAIN NO RELEASE;

-- doctor: engine
SELECT CASE
  WHEN EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = DATABASE()
    AND t.TABLE_NAME = 'shedlock' AND LOWER(t.ENGINE) <> 'innodb')
  THEN 'x' ELSE '' END;

-- doctor: triggers
SELECT CASE
  WHEN EXISTS (SELECT 1 FROM information_schema.TRIGGERS g WHERE g.EVENT_OBJECT_SCHEMA = DATABASE()
    AND g.EVENT_OBJECT_TABLE = 'shedlock')
  THEN 'x' ELSE '' END;

-- doctor: replicas
SELECT CASE WHEN EXISTS (SELECT 1 FROM information_schema.PROCESSLIST p WHERE p.COMMAND LIKE 'Binlog Dump%')
  AND NOT EXISTS (SELECT 1
    FROM /*M! information_schema.SESSION_VARIABLES */ /*!50700 performance_schema.session_variables */ v
    WHERE LOWER(v.VARIABLE_NAME) IN ('rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled')
    AND v.VARIABLE_VALUE = 'ON')
  THEN 'x' ELSE '' END;

-- doctor: whether it is a replica
SELECT CASE
  WHEN EXISTS (SELECT 1 FROM /*M! information_schema.GLOBAL_STATUS */ /*!50700 performance_schema.global_status */ s
    WHERE UPPER(s.VARIABLE_NAME) = 'SLAVES_RUNNING' AND s.VARIABLE_VALUE + 0 > 0)
  THEN 'x' ELSE '' END;

-- doctor: its sources
SHOW /*M! ALL SLAVES */ /*!50700 REPLICA */ STATUS;

-- doctor: its sources
SHOW SLAVE STATUS;


-- ## The journal's tables

-- create table "shedlock_journal"
CREATE TABLE `shedlock_journal` (
    version bigint NOT NULL PRIMARY KEY,
    identity VARCHAR(64) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL
);

-- create table "shedlock_job"
CREATE TABLE `shedlock_job` (
    job VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL PRIMARY KEY,
    schedule VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    zone VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    lock_at_most_us bigint NULL,
    registered_us bigint NOT NULL,
    last_started_us bigint NULL,
    last_name VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    last_owner VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    last_lock_at_most_us bigint NULL,
    last_slot_us bigint NULL,
    last_lock_store VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    last_outcome VARCHAR(16) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    last_succeeded_us bigint NULL,
    last_failed_us bigint NULL,
    last_error VARCHAR(1024) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    last_duration_us bigint NULL,
    next_slot_us bigint NULL,
    deadline_us bigint NULL,
    registered_by VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    other_by VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    other_at_us bigint NULL,
    other_schedule VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    other_zone VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    other_lock_at_most_us bigint NULL,
    elsewhere_slot_us bigint NULL,
    elsewhere_at_us bigint NULL,
    elsewhere_by VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    elsewhere_slots bigint NULL,
    watched_elsewhere bigint NULL
);

-- create table "shedlock_run"
CREATE TABLE `shedlock_run` (
    id VARCHAR(64) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL PRIMARY KEY,
    job VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    name VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    owner VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    slot_us bigint NULL,
    attempt bigint NULL,
    fencing_token bigint NULL,
    started_us bigint NOT NULL,
    lock_at_most_us bigint NULL,
    lock_store VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    ran_for_us bigint NULL,
    outcome VARCHAR(16) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    error VARCHAR(2048) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    INDEX (job, started_us, id),
    INDEX (name, started_us, id),
    INDEX (outcome, started_us, id),
    INDEX (started_us, id)
);

-- create table "shedlock_audit"
CREATE TABLE `shedlock_audit` (
    id VARCHAR(64) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL PRIMARY KEY,
    at_us bigint NOT NULL,
    actor VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    is_authenticated bigint NOT NULL,
    action VARCHAR(16) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    name VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    detail VARCHAR(1024) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    reason VARCHAR(1024) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    until_us bigint NULL,
    lock_store VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NULL,
    INDEX (name, id)
);

-- record version 1 of the journal
INSERT INTO `shedlock_journal` (version, identity)
SELECT 1, LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 32)
FROM (SELECT 1 AS one) AS n
WHERE NOT EXISTS (SELECT 1 FROM `shedlock_journal`);


-- ## The journal

-- around a transaction; the same in a session that is not ours
BEGIN;

-- around a transaction; the same in a session that is not ours
COMMIT;

-- the same in a session that is not ours
SET @shedlock_waits = @@lock_wait_timeout,
  @shedlock_row_waits = @@innodb_lock_wait_timeout,
  SESSION lock_wait_timeout = 1,
  SESSION innodb_lock_wait_timeout = 1;

-- the same in a session that is not ours
SET SESSION lock_wait_timeout = @shedlock_waits, SESSION innodb_lock_wait_timeout = @shedlock_row_waits;

-- clock
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- version
SELECT version FROM `shedlock_journal`;

-- identity
SELECT identity FROM `shedlock_journal`;

-- version_insert
INSERT INTO `shedlock_journal` (version, identity)
SELECT :j_version, LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 32)
FROM (SELECT 1 AS one) AS n
WHERE NOT EXISTS (SELECT 1 FROM `shedlock_journal`);

-- job
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
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
  (SELECT COUNT(*) FROM `shedlock_job` WHERE job = :j_job);

-- job_for_update
SELECT job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name, last_owner,
  last_lock_at_most_us, last_slot_us, last_lock_store, last_outcome, last_succeeded_us, last_failed_us, last_error,
  last_duration_us, next_slot_us, deadline_us, registered_by, other_by, other_at_us, other_schedule, other_zone,
  other_lock_at_most_us, elsewhere_slot_us, elsewhere_at_us, elsewhere_by, elsewhere_slots, watched_elsewhere
FROM `shedlock_job`
WHERE job = :j_job FOR UPDATE;

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
INSERT IGNORE INTO `shedlock_audit` (id, at_us, actor, is_authenticated, action, name, detail, reason, until_us,
  lock_store)
VALUES (:j_id, :j_at_us, :j_actor, :j_is_authenticated, :j_action, :j_name, :j_detail, NULLIF(:j_reason, ''),
  NULLIF(:j_until_us, -1), NULLIF(:j_lock_store, ''));

-- first_excess
SELECT id, started_us FROM `shedlock_run` WHERE job = :j_job ORDER BY started_us DESC, id DESC LIMIT 1 OFFSET :j_keep;

-- prune_runs
DELETE
FROM `shedlock_run`
WHERE id IN (SELECT id
  FROM (SELECT id FROM `shedlock_run` WHERE job = :j_job AND started_us <= :j_started
    AND (started_us < :j_started OR id <= :j_id) ORDER BY started_us, id LIMIT :j_limit) AS excess)
  AND 18446744073709551615 + (@@autocommit = 0) > 0;

-- prune_old_runs
DELETE
FROM `shedlock_run`
WHERE id IN (SELECT id
  FROM (SELECT id FROM `shedlock_run` WHERE started_us < :j_started ORDER BY started_us, id LIMIT :j_limit) AS old)
  AND 18446744073709551615 + (@@autocommit = 0) > 0;

-- prune_old_audit
DELETE
FROM `shedlock_audit`
WHERE id IN (SELECT id FROM (SELECT id FROM `shedlock_audit` WHERE id < :j_id ORDER BY id LIMIT :j_limit) AS old)
  AND 18446744073709551615 + (@@autocommit = 0) > 0;

-- forget_runs
DELETE FROM `shedlock_run` WHERE job = :j_job AND 18446744073709551615 + (@@autocommit = 0) > 0;

-- forget_job
DELETE FROM `shedlock_job` WHERE job = :j_job AND 18446744073709551615 + (@@autocommit = 0) > 0;

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

-- whether this user may not create tables
SELECT CASE WHEN COALESCE(CURRENT_ROLE(), 'NONE') = 'NONE'
  AND NOT EXISTS (SELECT 1 FROM information_schema.USER_PRIVILEGES p WHERE p.PRIVILEGE_TYPE = 'CREATE'
    AND p.GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), ''''))
  AND NOT EXISTS (SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES p WHERE p.PRIVILEGE_TYPE = 'CREATE'
    AND DATABASE() LIKE p.TABLE_SCHEMA AND p.GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), ''''))
  THEN 'x' ELSE '' END;


-- ## Some statements that differ: columns of type DATETIME(6)

-- Attempt(Nothing)
UPDATE `shedlock`
SET `lock_until` = UTC_TIMESTAMP(6) + INTERVAL :at_most MICROSECOND,
  `locked_at` = UTC_TIMESTAMP(6),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6),
    SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@autocommit = 0) > 0;

-- ReadToDecide
SELECT CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM (SELECT 1 AS one) AS n
LEFT JOIN (SELECT `name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot,
  shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until FROM `shedlock`
  WHERE `name` = :name LIMIT 1) AS r
  ON `name` = :name
WHERE 18446744073709551615 + (@@autocommit = 0) > 0 FOR UPDATE;

-- Extend
UPDATE `shedlock`
SET `lock_until` = GREATEST(`lock_until`, UTC_TIMESTAMP(6) + INTERVAL :at_most MICROSECOND),
  `locked_at` = `locked_at`
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@autocommit = 0) > 0;

-- Unlock(Failed)
UPDATE `shedlock`
SET `lock_until` = GREATEST(IF(:at_least = 0, UTC_TIMESTAMP(6),
  GREATEST(UTC_TIMESTAMP(6), `locked_at` + INTERVAL :at_least MICROSECOND)),
  UTC_TIMESTAMP(6) + INTERVAL :at_most MICROSECOND),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@autocommit = 0) > 0;

-- Settle
INSERT INTO `shedlock` (`name`, `lock_until`, `locked_at`, `locked_by`)
SELECT :name, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), :released
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@autocommit = 0 OR n.differs) > 0;

-- List { held_only: true }
SELECT CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM `shedlock`
WHERE `name` > :after
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@autocommit = 0) > 0
ORDER BY `name` LIMIT :limit;


-- ## Some statements that differ: columns of type TIMESTAMP

-- Attempt(Nothing)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999999 MICROSECOND, 19) AS DATETIME),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 19) AS DATETIME),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Extend
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(`lock_until`,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999999 MICROSECOND, 19) AS DATETIME),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Failed)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 19) AS DATETIME),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 19) AS DATETIME),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000000) + :at_least + 999999 MICROSECOND,
      19) AS DATETIME))),
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999999 MICROSECOND, 19) AS DATETIME),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Settle
/*M! SET STATEMENT time_zone = '+00:00' FOR */ INSERT /*+ SET_VAR(time_zone = '+00:00') */ INTO `shedlock` (`name`,
  `lock_until`, `locked_at`, `locked_by`)
SELECT :name, CAST(LEFT(UTC_TIMESTAMP(6), 19) AS DATETIME), CAST(LEFT(UTC_TIMESTAMP(6), 19) AS DATETIME), :released
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0 OR n.differs) > 0;


-- ## Some statements that differ: an owner whose collation is not exact

-- Attempt(Nothing)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (CAST(CONVERT(`locked_by` USING utf8mb4) AS BINARY) IN (CAST(:released AS BINARY),
    CAST(:freed AS BINARY))),
    1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Extend
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(`lock_until`,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`
WHERE `name` = :name
  AND CAST(CONVERT(`locked_by` USING utf8mb4) AS BINARY) = CAST(:owner AS BINARY)
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Failed)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND CAST(CONVERT(`locked_by` USING utf8mb4) AS BINARY) = CAST(:owner AS BINARY)
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;


-- ## Some statements that differ: shared_session_zone

-- Attempt(Nothing)
/*M! SET STATEMENT time_zone = '+05:30' FOR */
UPDATE /*+ SET_VAR(time_zone = '+05:30') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6),
    SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+05:30' OR @@autocommit = 0) > 0;

-- ReadToDecide
/*M! SET STATEMENT time_zone = '+05:30' FOR */
SELECT /*+ SET_VAR(time_zone = '+05:30') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM (SELECT 1 AS one) AS n
LEFT JOIN (SELECT `name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot,
  shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until FROM `shedlock`
  WHERE `name` = :name LIMIT 1) AS r
  ON `name` = :name
WHERE 18446744073709551615 + (@@time_zone <> '+05:30' OR @@autocommit = 0) > 0 FOR UPDATE;

-- Extend
/*M! SET STATEMENT time_zone = '+05:30' FOR */
UPDATE /*+ SET_VAR(time_zone = '+05:30') */ `shedlock`
SET `lock_until` = GREATEST(`lock_until`,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+05:30' OR @@autocommit = 0) > 0;

-- Unlock(Failed)
/*M! SET STATEMENT time_zone = '+05:30' FOR */
UPDATE /*+ SET_VAR(time_zone = '+05:30') */ `shedlock`
SET `lock_until` = GREATEST(IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+05:30' OR @@autocommit = 0) > 0;

-- Settle
/*M! SET STATEMENT time_zone = '+05:30' FOR */ INSERT /*+ SET_VAR(time_zone = '+05:30') */ INTO `shedlock` (`name`,
  `lock_until`, `locked_at`, `locked_by`)
SELECT :name, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  :released
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+05:30' OR @@autocommit = 0 OR n.differs) > 0;

-- List { held_only: true }
/*M! SET STATEMENT time_zone = '+05:30' FOR */
SELECT /*+ SET_VAR(time_zone = '+05:30') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM `shedlock`
WHERE `name` > :after
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+05:30' OR @@autocommit = 0) > 0
ORDER BY `name` LIMIT :limit;


-- ## Some statements that differ: a server that logs statements

-- Attempt(Nothing)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Extend
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(`lock_until`,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Failed)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;


-- ## Some statements that differ: a name whose collation is not exact

-- Attempt(Nothing)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_until END
WHERE `name` = :name
  AND CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = CAST(:name AS BINARY)
  AND `lock_until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Extend
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(`lock_until`,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`
WHERE `name` = :name
  AND CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = CAST(:name AS BINARY)
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Failed)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(IF(:at_least = 0, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
    CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LEAST(shedlock_fencing_token,
      TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000) + :at_least + 999 MICROSECOND,
      23) AS DATETIME(3)))),
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = CAST(:name AS BINARY)
  AND `locked_by` = :owner
  AND `lock_until` > SYSDATE(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- List { held_only: true }
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM `shedlock`
WHERE CAST(CONVERT(`name` USING utf8mb4) AS BINARY) > CAST(:after AS BINARY)
  AND `lock_until` > UTC_TIMESTAMP(6)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0
ORDER BY CAST(CONVERT(`name` USING utf8mb4) AS BINARY) LIMIT :limit;


-- ## Some statements that differ: time=client

-- Attempt(Nothing)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = LEAST(CAST(LEFT((TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND) + INTERVAL :at_most + 999 MICROSECOND,
  23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `locked_at` = CAST(LEFT((TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND), 23) AS DATETIME(3)),
  `locked_by` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= :now + :skew THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= :now + :skew THEN shedlock_skip_until END
WHERE `name` = :name
  AND `lock_until` <= (TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND)
  AND COALESCE(NOT (`locked_by` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- ReadToDecide
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, :now, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM (SELECT 1 AS one) AS n
LEFT JOIN (SELECT `name`, `lock_until`, `locked_at`, `locked_by`, shedlock_fencing_token, shedlock_slot,
  shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until FROM `shedlock`
  WHERE `name` = :name LIMIT 1) AS r
  ON `name` = :name
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0 FOR UPDATE;

-- Extend
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(`lock_until`,
  LEAST(CAST(LEFT((TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND) + INTERVAL :at_most + 999 MICROSECOND,
    23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > (TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Unlock(Failed)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `shedlock`
SET `lock_until` = GREATEST(IF(:at_least = 0,
  CAST(LEFT((TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND), 23) AS DATETIME(3)),
  GREATEST(CAST(LEFT((TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND), 23) AS DATETIME(3)),
    CAST(LEFT(`locked_at` + INTERVAL 1000 + :at_least + 999 MICROSECOND, 23) AS DATETIME(3)))),
  LEAST(CAST(LEFT((TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND) + INTERVAL :at_most + 999 MICROSECOND,
    23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07')),
  `locked_at` = `locked_at`,
  `locked_by` = :released
WHERE `name` = :name
  AND `locked_by` = :owner
  AND `lock_until` > (TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Settle
/*M! SET STATEMENT time_zone = '+00:00' FOR */ INSERT /*+ SET_VAR(time_zone = '+00:00') */ INTO `shedlock` (`name`,
  `lock_until`, `locked_at`, `locked_by`)
SELECT :name, CAST(LEFT((TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND), 23) AS DATETIME(3)),
  CAST(LEFT((TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND), 23) AS DATETIME(3)), :released
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0 OR n.differs) > 0;

-- List { held_only: true }
/*M! SET STATEMENT time_zone = '+00:00' FOR */
SELECT /*+ SET_VAR(time_zone = '+00:00') */ CONVERT(`name` USING utf8mb4), CONVERT(`locked_by` USING utf8mb4),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `lock_until`),
  shedlock_fencing_token, shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from,
  shedlock_skip_until, :now
FROM `shedlock`
WHERE `name` > :after
  AND `lock_until` > (TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND)
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0
ORDER BY `name` LIMIT :limit;


-- ## Some statements that differ: other names

-- Attempt(Nothing)
/*M! SET STATEMENT time_zone = '+00:00' FOR */
UPDATE /*+ SET_VAR(time_zone = '+00:00') */ `jobs`.`Locks`
SET `Until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
  TIMESTAMP'2038-01-18 03:14:07'),
  `Since` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)),
  `Holder` = :owner,
  shedlock_fencing_token = LAST_INSERT_ID(GREATEST(COALESCE(shedlock_fencing_token, 0) + 1,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))),
  shedlock_skip_from = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_from END,
  shedlock_skip_until = CASE WHEN shedlock_skip_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    THEN shedlock_skip_until END
WHERE `Name` = :name
  AND `Until` <= UTC_TIMESTAMP(6)
  AND COALESCE(NOT (`Holder` IN (:released, :freed)), 1)
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after
  AND 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0;

-- Insert(Nothing)
/*M! SET STATEMENT time_zone = '+00:00' FOR */ INSERT /*+ SET_VAR(time_zone = '+00:00') */ INTO `jobs`.`Locks` (`Name`,
  `Until`, `Since`, `Holder`, shedlock_fencing_token)
SELECT :name,
  LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL :at_most + 999 MICROSECOND, 23) AS DATETIME(3)),
    TIMESTAMP'2038-01-18 03:14:07'),
  CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), :owner,
  LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY) AS differs) AS n
WHERE 18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0 OR n.differs) > 0
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= :not_after;
