-- Makes messages due again, each after its own delay.
-- $1 ids $2 attempts $3 delays in seconds
UPDATE outbox o SET status = 'PENDING', run_at = clock_timestamp() + make_interval(secs => r.delay)
  FROM (SELECT unnest($1::bigint[]) AS id, unnest($2::int[]) AS attempt, unnest($3::float8[]) AS delay) r
 WHERE o.id = r.id AND o.attempt = r.attempt
