-- Locks a charge; what is read after it is as it stays. $1 event id
SELECT event_id FROM charge WHERE event_id = $1 FOR UPDATE
