-- A page of the history, the newest first. $1 before id $2 rows
SELECT id, event_id, at, version IS NOT NULL FROM charge_event WHERE id < $1 ORDER BY id DESC LIMIT $2
