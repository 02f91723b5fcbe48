-- $1 event id $2 client, empty for any
SELECT c.event_id, c.order_id, c.customer_id, c.amount_minor, c.currency, c.source, c.status, coalesce(c.last_outcome, ''), coalesce(c.reason, ''),
       coalesce(c.provider_account, ''), c.provider_ref, c.attempts, c.version, c.first_sent_at, c.created_at, c.updated_at
  FROM charge c WHERE c.event_id = $1 AND $2::text IN ('', c.client)
