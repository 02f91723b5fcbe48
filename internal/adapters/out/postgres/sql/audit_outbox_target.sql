-- R15: what a row of the outbox is about exists.
-- $1 after $2 to $3 grace in seconds
SELECT coalesce(f.event_id::text, 'outbox ' || f.id), format('%s row %s, %s, is about nothing that exists', f.channel, f.id, f.event_type)
  FROM (SELECT o.id, o.channel, o.event_id, o.event_type,
               CASE WHEN o.channel = 'provider' THEN (SELECT count(*) FROM charge c WHERE c.event_id = o.event_id)
                    WHEN o.version IS NOT NULL THEN (SELECT count(*) FROM charge_event e
                         WHERE e.event_id = o.event_id AND e.version = o.version AND e.type = o.event_type)
                    WHEN o.dead_letter_id IS NOT NULL THEN (SELECT count(*) FROM dead_letter d WHERE d.id = o.dead_letter_id)
                    ELSE 1 END AS n
          FROM outbox o
         WHERE o.id > $1::text::bigint AND o.id <= $2::text::bigint
           AND o.created_at < now() - make_interval(secs => $3::float8)) f
 WHERE f.n = 0
