-- Dead letters counted by reason, topic and hour, the newest hour first.
-- $1 ids, empty for all $2 reason $3 topic $4 status, each empty for all $5 created since, null for ever $6 limit
SELECT reason, topic, date_trunc('hour', created_at, 'UTC'), count(*), min(id), max(id)
  FROM dead_letter
 WHERE (cardinality($1::bigint[]) = 0 OR id = ANY ($1)) AND $2::text IN ('', reason) AND $3::text IN ('', topic) AND $4::text IN ('', status)
   AND ($5::timestamptz IS NULL OR created_at >= $5)
 GROUP BY 1, 2, 3 ORDER BY 3 DESC, 4 DESC, 1, 2 LIMIT $6
