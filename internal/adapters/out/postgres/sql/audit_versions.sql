-- R3: the announcements of a charge are numbered 1 to its version without gap.
-- $1 after $2 to $3 grace in seconds
SELECT c.event_id::text, format('version %s, but %s announcements from %s to %s', c.version, v.n, v.low, v.high)
  FROM charge c
 CROSS JOIN LATERAL (SELECT count(e.version) AS n, coalesce(min(e.version), 0) AS low, coalesce(max(e.version), 0) AS high
                       FROM charge_event e WHERE e.event_id = c.event_id) v
 WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid AND NOT c.history_purged
   AND c.updated_at < now() - make_interval(secs => $3::float8)
   AND (v.n <> c.version OR v.high <> c.version OR v.low <> least(c.version, 1))
