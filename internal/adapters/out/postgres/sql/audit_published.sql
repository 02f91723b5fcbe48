-- R2: an announcement is published or waits in the outbox.
-- $1 after $2 to $3 grace in seconds
SELECT e.event_id::text, format('%s, version %s, is neither published nor waiting', e.type, e.version)
  FROM charge_event e
 WHERE e.id > $1::text::bigint AND e.id <= $2::text::bigint AND e.version IS NOT NULL AND e.published_at IS NULL
   AND e.at < now() - make_interval(secs => $3::float8)
   AND NOT EXISTS (SELECT FROM outbox o WHERE o.channel = 'kafka' AND o.event_id = e.event_id AND o.version = e.version)
