-- R6: a requested charge has one provider row with a time, a parked one has one at rest, any other has none.
-- $1 after $2 to $3 grace in seconds
SELECT c.event_id::text,
       CASE WHEN o.n = 0 THEN format('%s without a provider row: nobody works on it', c.status)
            WHEN c.status = 'requested' AND o.n = 1 THEN 'requested, but its provider row is never due'
            WHEN c.status = 'parked' AND o.n = 1 THEN 'parked, but its provider row becomes due'
            ELSE format('%s with %s provider rows', c.status, o.n) END
  FROM charge c
 CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(bool_or(o.run_at = 'infinity'), false) AS at_rest
                       FROM outbox o WHERE o.channel = 'provider' AND o.event_id = c.event_id) o
 WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid
   AND c.updated_at < now() - make_interval(secs => $3::float8)
   AND (o.n <> (c.status IN ('requested', 'parked'))::int
        OR (c.status = 'requested' AND o.at_rest) OR (c.status = 'parked' AND NOT o.at_rest))
