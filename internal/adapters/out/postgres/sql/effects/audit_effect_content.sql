-- R18: order, amount and currency are the same at the provider.
-- $1 after $2 to $3 grace in seconds
SELECT e.key, format('the provider has order %s, %s %s; the charge has order %s, %s %s',
                     e.order_id, e.amount, e.currency, c.order_id, c.amount_minor, c.currency)
  FROM (SELECT e.*, CASE WHEN e.key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN e.key::uuid END AS event_id
          FROM audit_effect e WHERE e.n > $1::text::bigint AND e.n <= $2::text::bigint) e
 CROSS JOIN LATERAL (SELECT * FROM charge c WHERE c.event_id = e.event_id LIMIT 1) c
 WHERE (e.order_id, e.amount, e.currency) <> (c.order_id, c.amount_minor, c.currency)
   AND c.updated_at < now() - make_interval(secs => $3::float8)
