-- Adds a piece of the topic.
-- $1 partitions $2 offsets $3 event ids $4 types $5 charges $6 orders $7 customers $8 amounts $9 currencies $10 versions $11 faults
INSERT INTO audit_result (place, id, type, source, order_id, customer, amount, currency, version, fault)
SELECT format('partition %s offset %s', r.partition, r."offset"), lower(r.id), r.type,
       CASE WHEN lower(r.source) ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN r.source::uuid END,
       r.order_id, r.customer, r.amount, r.currency, r.version, r.fault
  FROM unnest($1::int[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[], $10::int[], $11::text[])
       AS r (partition, "offset", id, type, source, order_id, customer, amount, currency, version, fault)
