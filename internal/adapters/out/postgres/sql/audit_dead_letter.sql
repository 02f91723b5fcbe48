-- R14: the copy of a dead letter is published or waits in the outbox.
-- $1 after $2 to $3 grace in seconds
SELECT 'dead letter ' || d.id, format('%s/%s offset %s: its copy is neither published nor waiting', d.topic, d.partition, d."offset")
  FROM dead_letter d
 WHERE d.id > $1::text::bigint AND d.id <= $2::text::bigint AND d.published_at IS NULL
   AND d.created_at < now() - make_interval(secs => $3::float8)
   AND NOT EXISTS (SELECT FROM outbox o WHERE o.channel = 'kafka' AND o.dead_letter_id = d.id)
