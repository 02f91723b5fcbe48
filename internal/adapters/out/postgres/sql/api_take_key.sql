-- Stores a key that nobody has. It waits for a transaction that has it and is still open, and locks
-- nothing when the key is there: a repeat only reads.
-- $1 client $2 key $3 request hash $4 event id $5 status $6 location $7 body $8 seconds to live
INSERT INTO idempotency_key (client, key, request_hash, event_id, response_status, location, response_body, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + make_interval(secs => $8::float8))
ON CONFLICT (client, key) DO NOTHING
