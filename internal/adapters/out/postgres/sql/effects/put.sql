-- Adds a page of the provider's list. A charge that moved between two pages comes twice and counts once.
-- $1 keys $2 provider ids $3 statuses $4 orders $5 amounts $6 currencies
INSERT INTO audit_effect (key, ref, status, order_id, amount, currency)
SELECT lower(key), nullif(ref, ''), status, order_id, amount, currency
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[]) AS e (key, ref, status, order_id, amount, currency)
ON CONFLICT (ref) DO NOTHING
