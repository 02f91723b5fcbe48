-- Forgets expired keys, passing over those that a request is taking over.
-- $1 how many
DELETE FROM idempotency_key
 WHERE (client, key) IN (SELECT client, key FROM idempotency_key WHERE expires_at <= clock_timestamp()
                          ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)
