-- Moves a charge that is locked by hand. A retry fences every owner there was and opens a new window; any other
-- move ends the work. Attempts of owners that never reported are closed. Answers whether the row to retry was there.
-- $1 event id $2 from $3 to $4 reason of the charge $5 provider ref $6 type of the move $7 the operator's reason
-- $8 actor $9 announcement id, null for none $10 topic $11 key $12 value $13 traceparent
WITH moved AS (
    UPDATE charge
       SET status = $3, holds_order = $3::text NOT IN ('declined', 'cancelled'), reason = nullif($4, ''), provider_ref = coalesce($5, provider_ref),
           first_sent_at = CASE WHEN $3 = 'requested' THEN NULL ELSE first_sent_at END,
           pending_since = CASE WHEN $3 = 'requested' THEN NULL ELSE pending_since END,
           version = version + CASE WHEN $9::uuid IS NULL THEN 0 ELSE 1 END, updated_at = clock_timestamp()
     WHERE event_id = $1 RETURNING version
), closed AS (
    UPDATE charge_attempt SET outcome = 'unknown', finished_at = clock_timestamp(), detail = 'open when an operator moved the charge'
     WHERE event_id = $1 AND outcome IS NULL
), again AS (
    UPDATE outbox SET status = 'PENDING', attempt = attempt + 1, run_at = clock_timestamp()
     WHERE channel = 'provider' AND event_id = $1 AND $3 = 'requested' RETURNING id
), finished AS (
    DELETE FROM outbox WHERE channel = 'provider' AND event_id = $1 AND $3 <> 'requested'
), told AS (
    INSERT INTO charge_event (event_id, version, announcement_id, type, from_status, to_status, reason, actor)
    SELECT $1, CASE WHEN $9::uuid IS NULL THEN NULL ELSE version END, $9, $6, $2, $3, $7, $8 FROM moved
), announced AS (
    INSERT INTO outbox (channel, event_type, topic, msg_key, headers, payload, event_id, version)
    SELECT 'kafka', $6, $10::text, $11::bytea,
           ARRAY['event-id'::bytea, convert_to($9::text, 'UTF8'), 'event-type'::bytea, convert_to($6, 'UTF8'), 'traceparent'::bytea, $13::bytea],
           $12::bytea, $1, version
      FROM moved WHERE $9::uuid IS NOT NULL
)
SELECT $3 <> 'requested' OR EXISTS (SELECT FROM again)
