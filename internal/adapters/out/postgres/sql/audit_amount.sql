-- R13: amounts are positive and currencies three upper-case letters.
-- $1 after $2 to $3 grace in seconds
SELECT c.event_id::text, format('amount %s, currency %s', c.amount_minor, c.currency)
  FROM charge c
 WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid
   AND c.updated_at < now() - make_interval(secs => $3::float8)
   AND (c.amount_minor <= 0 OR c.currency !~ '^[A-Z]{3}$')
