-- The last announcement of a charge. $1 event id
SELECT c.status, c.order_id, c.customer_id, c.amount_minor, c.currency, c.provider_ref, coalesce(c.reason, ''),
       e.announcement_id, e.type, e.at, e.version, e.published_at IS NOT NULL,
       EXISTS (SELECT FROM outbox o WHERE o.channel = 'kafka' AND o.event_id = e.event_id AND o.version = e.version)
  FROM charge c JOIN charge_event e ON e.event_id = c.event_id AND e.version = c.version
 WHERE c.event_id = $1
