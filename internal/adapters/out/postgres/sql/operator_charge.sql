-- What decides about a manual move. Sent counts every window: a retry begins a new one and forgets first_sent_at.
-- $1 event id
SELECT c.order_id, c.customer_id, c.amount_minor, c.currency, c.source, c.status, coalesce(c.last_outcome, ''), coalesce(c.reason, ''),
       c.provider_ref, c.version, c.attempts, c.created_at, c.updated_at, coalesce(c.provider_account, ''),
       c.first_sent_at IS NOT NULL OR c.provider_account IS NOT NULL
           OR EXISTS (SELECT FROM charge_attempt a WHERE a.event_id = c.event_id AND a.outcome IS DISTINCT FROM 'not_sent') AS sent,
       coalesce((SELECT convert_from(o.headers[2], 'UTF8') FROM outbox o WHERE o.channel = 'provider' AND o.event_id = c.event_id), ''),
       clock_timestamp()
  FROM charge c WHERE c.event_id = $1
