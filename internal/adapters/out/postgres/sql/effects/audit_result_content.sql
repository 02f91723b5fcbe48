-- R22: order, customer, amount and currency of a result are those of its charge.
-- $1 after $2 to
SELECT r.place, format('order %s, customer %s, %s %s; charge %s has order %s, customer %s, %s %s',
                       r.order_id, r.customer, r.amount, r.currency, r.source, c.order_id, c.customer_id, c.amount_minor, c.currency)
  FROM audit_result r
 CROSS JOIN LATERAL (SELECT * FROM charge c WHERE c.event_id = r.source LIMIT 1) c
 WHERE r.n > $1::text::bigint AND r.n <= $2::text::bigint AND r.fault = ''
   AND (r.order_id, r.customer, r.amount, r.currency) <> (c.order_id, c.customer_id, c.amount_minor, c.currency)
