-- R9: order, customer, amount and currency of a charge are those of the event that ordered it, and of its
-- duplicates. The hash is that of the fingerprint, version 1; other versions cannot be compared.
-- $1 after $2 to $3 grace in seconds
SELECT f.event_id::text, format('the event has other content than charge %s', f.charge)
  FROM (SELECT p.event_id, c.event_id AS charge, p.fingerprint, '\x01'::bytea || substr(sha256(
               int8send(octet_length(c.order_id)::bigint) || convert_to(c.order_id, 'UTF8') ||
               int8send(octet_length(c.customer_id)::bigint) || convert_to(c.customer_id, 'UTF8') ||
               int8send(octet_length(c.amount_minor::text)::bigint) || convert_to(c.amount_minor::text, 'UTF8') ||
               int8send(octet_length(c.currency)::bigint) || convert_to(c.currency, 'UTF8')), 1, 15) AS expected
          FROM processed_event p
         CROSS JOIN LATERAL (SELECT * FROM charge c WHERE c.event_id = coalesce(p.duplicate_of, p.event_id) LIMIT 1) c
         WHERE p.event_id > $1::text::uuid AND p.event_id <= $2::text::uuid
           AND p.processed_at < now() - make_interval(secs => $3::float8)
           AND get_byte(p.fingerprint, 0) = 1) f
 WHERE f.fingerprint <> f.expected
