-- R17: money that the provider took belongs to a charge that is succeeded, is still being worked on, or is
-- parked: then nobody knew, and a person has been asked.
-- $1 after $2 to $3 grace in seconds
SELECT e.key, CASE WHEN c.status IS NULL THEN format('the provider took money for order %s, and there is no such charge', e.order_id)
                   ELSE format('the provider took the money (%s), but the charge is %s', coalesce(e.ref, 'without id'), c.status) END
  FROM (SELECT e.*, CASE WHEN e.key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN e.key::uuid END AS event_id
          FROM audit_effect e
         WHERE e.n > $1::text::bigint AND e.n <= $2::text::bigint AND e.status = 'succeeded') e
  LEFT JOIN LATERAL (SELECT c.status, c.updated_at FROM charge c WHERE c.event_id = e.event_id LIMIT 1) c ON true
 WHERE c.status IS NULL
    OR (c.status IN ('declined', 'cancelled') AND c.updated_at < now() - make_interval(secs => $3::float8))
