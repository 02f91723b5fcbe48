-- R11: an attempt without outcome is its claim's, and the claim still holds.
-- $1 after $2 to $3 grace in seconds
SELECT a.event_id::text, format('attempt %s of %s has no outcome and nobody works on it', a.attempt, a.started_at)
  FROM charge_attempt a
 WHERE a.event_id > $1::text::uuid AND a.event_id <= $2::text::uuid AND a.outcome IS NULL
   AND a.started_at < now() - make_interval(secs => $3::float8)
   AND (SELECT count(*) FROM outbox o
         WHERE o.channel = 'provider' AND o.event_id = a.event_id AND o.status = 'PUBLISHING' AND o.attempt = a.attempt) = 0
