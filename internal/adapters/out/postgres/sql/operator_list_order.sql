-- The charges of an order, the live one first. $1 order $2 status, empty for any $3 limit
SELECT c.event_id, c.order_id, c.customer_id, c.amount_minor, c.currency, c.source, c.status, coalesce(c.last_outcome, ''), coalesce(c.reason, ''),
       coalesce(c.provider_account, ''), c.provider_ref, c.attempts, c.version, c.first_sent_at, c.created_at, c.updated_at
  FROM (SELECT * FROM charge WHERE order_id = $1 AND holds_order
        UNION ALL
        SELECT * FROM charge WHERE order_id = $1 AND NOT holds_order) c
 WHERE $2::text IN ('', c.status)
 ORDER BY c.holds_order DESC, c.created_at DESC LIMIT $3
