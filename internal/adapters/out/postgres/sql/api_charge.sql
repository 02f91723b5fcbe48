-- Makes a charge and the order for its provider call, unless its id or its order has a charge.
-- $1 event id $2 order $3 customer $4 amount $5 currency $6 client $7 request $8 traceparent
WITH charged AS (
    INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source, client)
    VALUES ($1, $2, $3, $4, $5, 'api', $6)
    ON CONFLICT DO NOTHING RETURNING event_id
)
INSERT INTO outbox (channel, event_type, event_id, payload, headers)
SELECT 'provider', 'ChargeRequested', event_id, $7, ARRAY['traceparent'::bytea, convert_to($8::text, 'UTF8')] FROM charged
