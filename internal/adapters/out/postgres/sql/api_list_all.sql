-- Charges by EventID.
-- It looks at $4 rows at most: those that match come back, and the last one it looked at, so that the
-- caller knows where to go on.
-- $1 after $2 client, empty for any $3 status, empty for any $4 rows to look at $5 rows to return
SELECT event_id, order_id, customer_id, amount_minor, currency, source, status, coalesce(last_outcome, ''), coalesce(reason, ''),
       coalesce(provider_account, ''), provider_ref, attempts, version, first_sent_at, created_at, updated_at, matches, n = $4
  FROM (SELECT c.*, $2::text IN ('', coalesce(c.client, '')) AND $3::text IN ('', c.status) AS matches, row_number() OVER (ORDER BY c.event_id) AS n
          FROM charge c WHERE c.event_id > $1
         ORDER BY c.event_id LIMIT $4) looked
 WHERE matches OR n = $4
 ORDER BY event_id LIMIT $5
