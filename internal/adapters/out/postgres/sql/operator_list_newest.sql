-- Charges by id, the newest first. $1 status, empty for any $2 limit
SELECT c.event_id, c.order_id, c.customer_id, c.amount_minor, c.currency, c.source, c.status, coalesce(c.last_outcome, ''), coalesce(c.reason, ''),
       coalesce(c.provider_account, ''), c.provider_ref, c.attempts, c.version, c.first_sent_at, c.created_at, c.updated_at
  FROM charge c
 WHERE $1::text IN ('', c.status)
 ORDER BY c.event_id DESC LIMIT $2
