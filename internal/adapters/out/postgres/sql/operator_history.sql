-- $1 event id
SELECT at, type, from_status, to_status, actor, coalesce(reason, ''), version, published_at
  FROM charge_event WHERE event_id = $1 ORDER BY id
