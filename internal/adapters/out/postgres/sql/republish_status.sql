-- $1 event id
SELECT status FROM charge WHERE event_id = $1
