-- R4: an order has at most one charge that is not declined or cancelled.
-- $1 after $2 to $3 grace in seconds
SELECT c.event_id::text, format('order %s also has charge %s, %s', c.order_id, o.event_id, o.status)
  FROM charge c
 CROSS JOIN LATERAL (SELECT o.event_id, o.status FROM charge o
                      WHERE o.order_id = c.order_id AND o.holds_order AND o.event_id < c.event_id LIMIT 1) o
 WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid AND c.holds_order
   AND c.updated_at < now() - make_interval(secs => $3::float8)
