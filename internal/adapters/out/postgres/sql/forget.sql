-- Takes back the inbox rows that this transaction wrote for events it refuses in the end.
-- $1 event ids $2 group
DELETE FROM processed_event
 WHERE event_id = ANY ($1::uuid[]) AND consumer_group = $2::text AND xmin = pg_current_xact_id()::xid
