-- Takes back the inbox rows that this transaction wrote for events it refuses in the end.
-- $1 event ids $2 group
DELETE FROM processed_event p USING (SELECT unnest($1::uuid[]) AS event_id) d
 WHERE p.event_id = d.event_id AND p.consumer_group = $2::text AND p.xmin = pg_current_xact_id()::xid
