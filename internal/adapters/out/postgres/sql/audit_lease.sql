-- R7: no lease ended longer ago than it lasts; those of a paused charger are excused.
-- $1 after $2 to $3 grace, two leases, in seconds
SELECT coalesce(o.event_id::text, 'outbox ' || o.id), format('%s row %s is held since a lease that ended at %s', o.channel, o.id, o.run_at)
  FROM outbox o
 WHERE o.id > $1::text::bigint AND o.id <= $2::text::bigint AND o.status = 'PUBLISHING'
   AND o.run_at < now() - make_interval(secs => $3::float8 / 2)
   AND (o.channel <> 'provider' OR NOT EXISTS (SELECT FROM control WHERE name = 'charging_paused'))
