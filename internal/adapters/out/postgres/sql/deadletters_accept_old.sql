-- Makes a charge of one event that the inbox is too young for: no row of the inbox is written, and its history says
-- so. Only when the event is no charge, and no live charge holds its order. Locks are taken in the order of accept.sql.
-- $1 event id $2 order $3 customer $4 amount $5 currency $6 request $7 traceparent $8 first sent at, null but after a restore
-- $9 actor $10 reason
WITH charged AS (
    INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source, first_sent_at)
    VALUES ($1, $2, $3, $4, $5, 'kafka', $8) ON CONFLICT DO NOTHING RETURNING event_id
), told AS (
    INSERT INTO charge_event (event_id, type, from_status, to_status, reason, actor)
    SELECT event_id, 'ChargeAcceptedOld', 'requested', 'requested', $10, $9 FROM charged
)
INSERT INTO outbox (channel, event_type, event_id, payload, headers)
SELECT 'provider', 'ChargeRequested', event_id, $6::bytea, ARRAY['traceparent'::bytea, convert_to($7::text, 'UTF8')] FROM charged
