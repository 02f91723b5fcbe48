-- Names, in the inbox rows that this transaction wrote, the charges whose duplicates they are.
-- $1 event ids $2 charges $3 group
UPDATE processed_event p SET duplicate_of = d.charge
  FROM (SELECT unnest($1::uuid[]) AS event_id, unnest($2::uuid[]) AS charge) d
 WHERE p.event_id = d.event_id AND p.consumer_group = $3::text AND p.xmin = pg_current_xact_id()::xid
