-- R10: the event behind a charge from Kafka is in the inbox for as long as that remembers: its retention,
-- or since its oldest day when that is younger. A charge that an operator made of an event which was too old already
-- never had an inbox row.
-- $1 after $2 to $3 grace in seconds $4 retention in seconds
WITH remembered AS MATERIALIZED (
    SELECT billing_id_bound(greatest(now() - make_interval(secs => $4::float8),
               min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC')) AS since
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'processed_event'::regclass
)
SELECT c.event_id::text, 'charged, but the inbox does not know the event: it would be accepted again'
  FROM charge c, remembered r
 WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid AND c.event_id >= r.since AND c.source = 'kafka'
   AND c.updated_at < now() - make_interval(secs => $3::float8)
   AND (SELECT count(*) FROM processed_event p WHERE p.event_id = c.event_id) = 0
   AND NOT c.history_purged
   AND (SELECT count(*) FROM charge_event e WHERE e.event_id = c.event_id AND e.type = 'ChargeAcceptedOld') = 0
