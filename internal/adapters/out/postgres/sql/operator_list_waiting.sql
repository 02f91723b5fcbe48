-- Charges that are not terminal, newest first, by way of their provider rows. $1 status $2 limit
SELECT c.event_id, c.order_id, c.customer_id, c.amount_minor, c.currency, c.source, c.status, coalesce(c.last_outcome, ''), coalesce(c.reason, ''),
       coalesce(c.provider_account, ''), c.provider_ref, c.attempts, c.version, c.first_sent_at, c.created_at, c.updated_at
  FROM outbox o JOIN charge c ON c.event_id = o.event_id
 WHERE o.channel = 'provider' AND c.status = $1
 ORDER BY c.created_at DESC LIMIT $2
