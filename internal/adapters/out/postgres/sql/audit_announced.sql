-- R1: a settled or parked charge has the announcement of its status under its version.
-- Scalar subqueries, here and in the other rules, keep the planner from hashing a whole table for one page.
-- $1 after $2 to $3 grace in seconds
SELECT f.event_id::text, format('%s in version %s, announced as %s', f.status, f.version, coalesce(f.type, 'nothing'))
  FROM (SELECT c.event_id, c.status, c.version,
               (SELECT e.type FROM charge_event e WHERE e.event_id = c.event_id AND e.version = c.version) AS type
          FROM charge c
         WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid AND c.status <> 'requested' AND NOT c.history_purged
           AND c.updated_at < now() - make_interval(secs => $3::float8)) f
 WHERE f.type IS DISTINCT FROM 'Charge' || initcap(f.status)
