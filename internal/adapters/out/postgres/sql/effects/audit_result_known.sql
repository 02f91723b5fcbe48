-- R21: a result on the topic is an announcement of the history, by event id, charge, type and version. Where the history
-- was deleted, its charge must have had so many.
-- $1 after $2 to
SELECT r.place, CASE WHEN r.fault <> '' THEN format('is no result: %s', r.fault)
                     WHEN c.version IS NULL THEN format('%s of a charge that does not exist: %s', r.type, coalesce(r.source::text, 'no UUID'))
                     WHEN e.announcement_id IS NULL THEN format('%s, version %s of charge %s, was never announced', r.type, r.version, r.source)
                     ELSE format('version %s of charge %s is announced as %s %s, not as %s %s', r.version, r.source, e.type, e.announcement_id, r.type, r.id) END
  FROM audit_result r
  LEFT JOIN LATERAL (SELECT c.version, c.history_purged FROM charge c WHERE c.event_id = r.source LIMIT 1) c ON true
  LEFT JOIN LATERAL (SELECT e.type, e.announcement_id FROM charge_event e WHERE e.event_id = r.source AND e.version = r.version LIMIT 1) e ON true
 WHERE r.n > $1::text::bigint AND r.n <= $2::text::bigint
   AND (r.fault <> '' OR c.version IS NULL
        OR CASE WHEN c.history_purged THEN r.version NOT BETWEEN 1 AND c.version
                ELSE (e.announcement_id::text, e.type) IS DISTINCT FROM (r.id, r.type) END)
