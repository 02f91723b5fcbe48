-- Leases due messages of the Kafka channel, oldest first: as many as fit into the bytes, at least one. An announcement waits
-- until the earlier ones of its charge are published, by whichever process.
-- $1 limit $2 lease in seconds $3 bytes
WITH locked AS (
    SELECT ctid AS place, id, status, run_at, coalesce(octet_length(payload), 0) AS size FROM outbox o
     WHERE channel = 'kafka' AND run_at <= statement_timestamp()
       AND (version IS NULL OR version = 1 OR NOT EXISTS (
            SELECT FROM charge_event e WHERE e.event_id = o.event_id AND e.version < o.version AND e.published_at IS NULL))
     ORDER BY run_at LIMIT $1 FOR UPDATE SKIP LOCKED
), due AS (
    SELECT place, status FROM (SELECT place, status, size, sum(size) OVER (ORDER BY run_at, id) AS upto FROM locked) l
     WHERE upto <= $3 OR upto = size
), leased AS (
    UPDATE outbox o SET status = 'PUBLISHING', attempt = o.attempt + 1, run_at = clock_timestamp() + make_interval(secs => $2::float8)
      FROM due WHERE o.ctid = due.place -- locked above; one that another transaction has just moved is left for the next claim
    RETURNING o.id, o.attempt, o.event_type, o.topic, o.msg_key, o.payload, o.headers, due.status = 'PUBLISHING' AS reclaimed
)
SELECT id, attempt, event_type, topic, msg_key, payload, headers, reclaimed FROM leased ORDER BY id
