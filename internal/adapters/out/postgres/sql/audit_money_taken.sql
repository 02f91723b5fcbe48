-- R12: a charge with a succeeded attempt is succeeded.
-- $1 after $2 to $3 grace in seconds
SELECT a.event_id::text, format('attempt %s took the money, but the charge is %s', a.attempt, coalesce(c.status, 'not there'))
  FROM charge_attempt a
  LEFT JOIN LATERAL (SELECT c.status, c.updated_at FROM charge c WHERE c.event_id = a.event_id LIMIT 1) c ON true
 WHERE a.event_id > $1::text::uuid AND a.event_id <= $2::text::uuid AND a.outcome = 'succeeded'
   AND greatest(a.finished_at, c.updated_at) < now() - make_interval(secs => $3::float8)
   AND c.status IS DISTINCT FROM 'succeeded'
