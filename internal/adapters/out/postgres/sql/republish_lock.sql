-- Locks the announcements of a charge against another one who orders them; what is read behind it is what he left. $1 event id
SELECT id FROM charge_event WHERE event_id = $1 AND version IS NOT NULL ORDER BY id FOR UPDATE
