-- Leases due messages of the Kafka channel, oldest first.
-- $1 limit $2 lease in seconds
WITH due AS (
    SELECT id, status FROM outbox
     WHERE channel = 'kafka' AND run_at <= statement_timestamp()
     ORDER BY run_at LIMIT $1 FOR UPDATE SKIP LOCKED
), leased AS (
    UPDATE outbox o SET status = 'PUBLISHING', attempt = o.attempt + 1, run_at = clock_timestamp() + make_interval(secs => $2::float8)
      FROM due WHERE o.id = due.id
    RETURNING o.id, o.attempt, o.event_type, o.topic, o.msg_key, o.payload, o.headers, due.status = 'PUBLISHING' AS reclaimed
)
SELECT id, attempt, event_type, topic, msg_key, payload, headers, reclaimed FROM leased ORDER BY id
