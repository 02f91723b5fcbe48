-- Writes outcomes, moves and announcements of charges whose claim still holds, and closes the attempt
-- rows of all. Answers the charges whose claim held.
-- $1 event ids $2 attempts $3 outcomes $4 last outcomes $5 http statuses $6 codes $7 details $8 provider refs
-- $9 statuses $10 reasons $11 delays in seconds $12 clear stamp $13 pending
-- $14 announcement ids $15 types $16 topics $17 keys $18 values $19 traceparents $20 gives the order back
WITH r AS MATERIALIZED (
    SELECT unnest($1::uuid[]) AS event_id, unnest($2::int[]) AS attempt, unnest($3::text[]) AS outcome,
           unnest($4::text[]) AS last_outcome, unnest($5::int[]) AS http_status, unnest($6::text[]) AS code,
           unnest($7::text[]) AS detail, unnest($8::text[]) AS provider_ref, unnest($9::text[]) AS status,
           unnest($10::text[]) AS reason, unnest($11::float8[]) AS delay, unnest($12::boolean[]) AS clear_stamp,
           unnest($13::boolean[]) AS pending, unnest($14::uuid[]) AS announcement_id, unnest($15::text[]) AS type,
           unnest($16::text[]) AS topic, unnest($17::bytea[]) AS msg_key, unnest($18::bytea[]) AS payload,
           unnest($19::bytea[]) AS traceparent, unnest($20::boolean[]) AS frees_order
), journal AS (
    UPDATE charge_attempt a
       SET outcome = r.outcome, finished_at = clock_timestamp(), http_status = nullif(r.http_status, 0),
           provider_code = nullif(r.code, ''), provider_ref = r.provider_ref, detail = nullif(r.detail, '')
      FROM r WHERE a.event_id = r.event_id AND a.attempt = r.attempt AND r.outcome IS NOT NULL
       AND (a.outcome IS NULL OR (a.outcome = 'unknown' AND a.http_status IS NULL))
), held AS MATERIALIZED (
    SELECT o.id, r.* FROM (SELECT * FROM r ORDER BY event_id) r, LATERAL (
        SELECT id FROM outbox
         WHERE event_id = r.event_id AND attempt = r.attempt AND channel = 'provider' AND status = 'PUBLISHING' OFFSET 0 FOR UPDATE
    ) o -- one probe for each, whatever the statistics say, and all settlements lock in one order
), closed AS ( -- of charges that nobody claims again
    UPDATE charge_attempt a SET outcome = 'unknown', finished_at = clock_timestamp(), detail = 'the process that made this attempt never reported'
      FROM held h WHERE h.status <> 'requested' AND h.attempt > 1 AND a.event_id = h.event_id AND a.attempt < h.attempt AND a.outcome IS NULL
       AND NOT EXISTS (SELECT FROM r WHERE r.event_id = a.event_id AND r.attempt = a.attempt)
), finished AS (
    DELETE FROM outbox o USING held h WHERE o.id = h.id AND h.status IN ('succeeded', 'declined')
), again AS (
    UPDATE outbox o SET status = 'PENDING',
           run_at = CASE h.status WHEN 'parked' THEN 'infinity'::timestamptz ELSE clock_timestamp() + make_interval(secs => h.delay) END
      FROM held h WHERE o.id = h.id AND h.status IN ('requested', 'parked')
), moved AS (
    UPDATE charge c
       SET status = h.status, holds_order = h.status <> 'declined' AND NOT h.frees_order, last_outcome = h.last_outcome, reason = nullif(h.reason, ''),
           provider_ref = coalesce(h.provider_ref, c.provider_ref),
           first_sent_at = CASE WHEN h.clear_stamp THEN NULL ELSE c.first_sent_at END,
           provider_account = CASE WHEN h.clear_stamp AND NOT EXISTS (
                   SELECT FROM charge_attempt a WHERE a.event_id = h.event_id AND a.attempt < h.attempt AND a.outcome IS DISTINCT FROM 'not_sent')
               THEN NULL ELSE c.provider_account END,
           pending_since = CASE WHEN h.pending THEN coalesce(c.pending_since, clock_timestamp()) ELSE c.pending_since END,
           version = c.version + CASE WHEN h.type IS NULL THEN 0 ELSE 1 END, updated_at = clock_timestamp()
      FROM held h WHERE c.event_id = h.event_id
    RETURNING c.version, h.*
), told AS (
    INSERT INTO charge_event (event_id, version, announcement_id, type, from_status, to_status, reason)
    SELECT event_id, version, announcement_id, type, 'requested', status, nullif(reason, '') FROM moved WHERE type IS NOT NULL
), announced AS (
    INSERT INTO outbox (channel, event_type, topic, msg_key, headers, payload, event_id, version)
    SELECT 'kafka', type, topic, msg_key,
           ARRAY['event-id'::bytea, convert_to(announcement_id::text, 'UTF8'), 'event-type'::bytea, convert_to(type, 'UTF8'),
                 'traceparent'::bytea, traceparent], payload, event_id, version
      FROM moved WHERE type IS NOT NULL
)
SELECT event_id, attempt FROM held
