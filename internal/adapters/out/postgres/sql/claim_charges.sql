-- Leases due charges, says what each may be used for, and writes the attempt rows of those that may be
-- sent, in one statement. Every decision is made on the database's clock. A charge that was half a key window
-- old at its first send may have been sent in a life that this database does not remember: it is looked up before
-- each request, because the owner that set the stamp may have died before its own look-up.
-- $1 limit $2 lease in seconds $3 provider account $4 half of the key window in seconds
WITH clock AS MATERIALIZED (
    SELECT now, now - make_interval(secs => $4::float8) AS half_window_ago, billing_id_bound(now - make_interval(secs => $4::float8)) AS half_window_id,
           EXISTS (SELECT FROM control WHERE name = 'history_lost') AS history_lost
      FROM (SELECT clock_timestamp() AS now OFFSET 0) c
), due AS (
    SELECT ctid AS place, status FROM outbox
     WHERE channel = 'provider' AND run_at <= statement_timestamp()
       AND NOT EXISTS (SELECT FROM control WHERE name = 'charging_paused')
     ORDER BY run_at LIMIT $1 FOR UPDATE SKIP LOCKED
), leased AS (
    UPDATE outbox o SET status = 'PUBLISHING', attempt = o.attempt + 1, run_at = clock_timestamp() + make_interval(secs => $2::float8)
      FROM due WHERE o.ctid = due.place -- locked above; one that another transaction has just moved is left for the next claim
    RETURNING o.event_id, o.attempt, o.payload, o.headers, due.status = 'PUBLISHING' AS reclaimed
), facts AS MATERIALIZED (
    SELECT l.*, c.order_id, c.customer_id, c.amount_minor, c.currency, c.last_outcome, c.version, c.attempts, c.first_sent_at,
           c.pending_since, clock.now, clock.history_lost,
           CASE WHEN c.provider_account <> $3 THEN 'park'
                WHEN c.pending_since IS NOT NULL THEN 'lookup'
                WHEN c.first_sent_at <= clock.half_window_ago THEN 'lookup'
                WHEN c.source = 'api' AND clock.history_lost AND c.first_sent_at IS NULL THEN 'lookup_post'
                WHEN c.created_at < coalesce(c.first_sent_at - make_interval(secs => $4::float8), clock.half_window_ago) THEN 'lookup_post'
                WHEN c.source = 'kafka' AND c.event_id < CASE WHEN c.first_sent_at IS NULL THEN clock.half_window_id
                     ELSE billing_id_bound(c.first_sent_at - make_interval(secs => $4::float8)) END THEN 'lookup_post'
                ELSE 'post' END AS step
      FROM leased l JOIN charge c ON c.event_id = l.event_id, clock
), closed AS (
    UPDATE charge_attempt a SET outcome = 'unknown', finished_at = clock_timestamp(), detail = 'the process that made this attempt never reported'
      FROM facts f WHERE f.attempts > 0 AND a.event_id = f.event_id AND a.outcome IS NULL
    RETURNING a.event_id
), opened AS (
    INSERT INTO charge_attempt (event_id, attempt)
    SELECT event_id, attempt FROM facts WHERE step IN ('post', 'lookup_post')
), stamped AS (
    UPDATE charge c
       SET attempts = c.attempts + CASE WHEN f.step IN ('post', 'lookup_post') THEN 1 ELSE 0 END,
           first_sent_at = CASE WHEN f.step IN ('post', 'lookup_post') THEN coalesce(c.first_sent_at, f.now) ELSE c.first_sent_at END,
           provider_account = CASE WHEN f.step IN ('post', 'lookup_post') THEN coalesce(c.provider_account, $3) ELSE c.provider_account END,
           last_outcome = CASE WHEN f.closed AND c.pending_since IS NULL THEN 'unknown' ELSE c.last_outcome END,
           updated_at = f.now
      FROM (SELECT f.*, f.event_id IN (SELECT event_id FROM closed) AS closed FROM facts f) f
     WHERE c.event_id = f.event_id AND (f.closed OR f.step IN ('post', 'lookup_post'))
)
SELECT event_id, order_id, customer_id, amount_minor, currency, payload,
       coalesce(convert_from(headers[2], 'UTF8'), '') AS traceparent, attempt, step,
       CASE WHEN pending_since IS NULL AND event_id IN (SELECT event_id FROM closed) THEN 'unknown' ELSE coalesce(last_outcome, '') END AS last_outcome, version,
       attempts + CASE WHEN step IN ('post', 'lookup_post') THEN 1 ELSE 0 END AS tries,
       step IN ('post', 'lookup_post') AS journaled,
       step IN ('post', 'lookup_post') AND first_sent_at IS NULL AS stamped,
       reclaimed, history_lost,
       extract(epoch FROM coalesce(first_sent_at, now) + make_interval(secs => $4::float8) - now)::float8 AS post_for,
       extract(epoch FROM now - coalesce(first_sent_at, now))::float8 AS age,
       extract(epoch FROM now - coalesce(pending_since, now))::float8 AS pending_for,
       pending_since IS NOT NULL AS pending, coalesce(first_sent_at = 'epoch', false) AS doubtful, now
  FROM facts
