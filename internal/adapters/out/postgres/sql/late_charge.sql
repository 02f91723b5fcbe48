-- Locks a charge that is not terminal, its queue row first, as every other statement does.
-- $1 event id
WITH queued AS MATERIALIZED (
    SELECT id FROM outbox WHERE channel = 'provider' AND event_id = $1 FOR UPDATE
)
SELECT c.status, c.version FROM queued, charge c
 WHERE c.event_id = $1 AND c.status IN ('requested', 'parked') FOR UPDATE OF c
