-- Settles a charge, whatever its current claim, by a success that the provider confirmed to a former owner.
-- Nobody will claim it again, so the attempt of a present owner is closed here; when that owner lives, its answer
-- is written over this.
-- $1 event id $2 provider ref $3 announcement id $4 type $5 topic $6 key $7 value $8 traceparent $9 from status
WITH moved AS (
    UPDATE charge SET status = 'succeeded', last_outcome = 'succeeded', reason = NULL, provider_ref = coalesce($2, provider_ref),
           version = version + 1, updated_at = clock_timestamp()
     WHERE event_id = $1 RETURNING version
), finished AS (
    DELETE FROM outbox WHERE channel = 'provider' AND event_id = $1
), closed AS (
    UPDATE charge_attempt SET outcome = 'unknown', finished_at = clock_timestamp(), detail = 'a former owner settled the charge meanwhile'
     WHERE event_id = $1 AND outcome IS NULL
), told AS (
    INSERT INTO charge_event (event_id, version, announcement_id, type, from_status, to_status, reason)
    SELECT $1, version, $3, $4, $9, 'succeeded', 'late answer of a former owner' FROM moved
)
INSERT INTO outbox (channel, event_type, topic, msg_key, headers, payload, event_id, version)
SELECT 'kafka', $4, $5, $6,
       ARRAY['event-id'::bytea, convert_to(($3::uuid)::text, 'UTF8'), 'event-type'::bytea, convert_to($4, 'UTF8'), 'traceparent'::bytea, $8::bytea],
       $7, $1, version FROM moved
