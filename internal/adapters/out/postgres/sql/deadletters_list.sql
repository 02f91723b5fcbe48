-- Dead letters, the oldest first, without what came from the producer.
-- $1 ids, empty for all $2 reason $3 topic $4 status, each empty for all $5 created since, null for ever $6 limit
SELECT id, consumer_group, topic, partition, "offset", message_time, reason, detail, event_id, masked, status,
       resolved_at, coalesce(resolved_by, ''), coalesce(resolved_reason, ''), published_at, created_at
  FROM dead_letter
 WHERE (cardinality($1::bigint[]) = 0 OR id = ANY ($1)) AND $2::text IN ('', reason) AND $3::text IN ('', topic) AND $4::text IN ('', status)
   AND ($5::timestamptz IS NULL OR created_at >= $5)
 ORDER BY id LIMIT $6
