-- Open dead letters for one run over them, and how many there are in all.
-- $1 ids, empty for all $2 reason $3 topic, each empty for all $4 created since, null for ever $5 limit
SELECT id, count(*) OVER () FROM dead_letter
 WHERE status = 'open' AND (cardinality($1::bigint[]) = 0 OR id = ANY ($1)) AND $2::text IN ('', reason) AND $3::text IN ('', topic)
   AND ($4::timestamptz IS NULL OR created_at >= $4)
 ORDER BY id LIMIT $5
