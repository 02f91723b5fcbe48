-- Charges that are not terminal, by way of their provider rows, so that finished ones cost nothing. The last
-- column is the first send of those whose key may still be used.
SELECT c.status, coalesce(c.last_outcome, ''), count(*), min(c.created_at),
       min(c.first_sent_at) FILTER (WHERE c.status = 'requested' AND c.pending_since IS NULL AND c.first_sent_at > 'epoch')
  FROM outbox o JOIN charge c ON c.event_id = o.event_id
 WHERE o.channel = 'provider'
 GROUP BY 1, 2 ORDER BY 1, 2
