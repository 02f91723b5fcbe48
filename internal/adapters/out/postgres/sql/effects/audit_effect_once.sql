-- R19: the provider took money for an order at most once. This needs no grace: money does not come back.
-- $1 after $2 to
SELECT e.key, format('order %s was paid before, under key %s (%s)', e.order_id, o.key, coalesce(o.ref, 'without id'))
  FROM audit_effect e
 CROSS JOIN LATERAL (SELECT o.key, o.ref FROM audit_effect o
                      WHERE o.order_id = e.order_id AND o.n < e.n AND o.status = 'succeeded' ORDER BY o.n LIMIT 1) o
 WHERE e.n > $1::text::bigint AND e.n <= $2::text::bigint AND e.status = 'succeeded'
