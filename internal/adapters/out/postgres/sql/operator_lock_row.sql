-- Locks the queue row of a charge, before the charge itself, as every other step does. $1 event id
SELECT coalesce(convert_from(headers[2], 'UTF8'), '') FROM outbox WHERE channel = 'provider' AND event_id = $1 FOR UPDATE
