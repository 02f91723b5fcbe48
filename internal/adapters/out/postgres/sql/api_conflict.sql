-- Why a charge was not made: the charge of its id, the live charge of its order. A second statement, so that
-- its snapshot shows winners which committed while the first one waited for them.
-- $1 event id $2 order $3 customer $4 amount $5 currency
SELECT c.event_id, true AS own, (c.order_id, c.customer_id, c.amount_minor, c.currency) = ($2::text, $3::text, $4::bigint, $5::text) AS same, ''
  FROM charge c WHERE c.event_id = $1
UNION ALL
SELECT c.event_id, false, false, coalesce(c.client, '')
  FROM charge c WHERE c.order_id = $2 AND c.holds_order AND c.event_id <> $1
