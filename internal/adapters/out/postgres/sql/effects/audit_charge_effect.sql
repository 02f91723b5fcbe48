-- R20: a succeeded charge of this provider account is a succeeded charge at the provider. Only what was
-- settled before the list was begun can be expected in it.
-- $1 after $2 to $3 grace in seconds $4 account $5 when the list was begun
SELECT c.event_id::text, format('succeeded (%s), but the provider lists no such charge as succeeded', coalesce(c.provider_ref, 'without id'))
  FROM charge c
 WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid AND c.status = 'succeeded' AND c.provider_account = $4
   AND c.updated_at < $5::timestamptz - make_interval(secs => $3::float8)
   AND (SELECT count(*) FROM audit_effect e WHERE e.key = c.event_id::text AND e.status = 'succeeded') = 0
