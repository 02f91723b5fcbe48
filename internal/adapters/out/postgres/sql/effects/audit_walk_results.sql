-- The end of a page of the topic, and its rows. $1 after $2 rows
SELECT max(n)::text, count(*) FROM (SELECT n FROM audit_result WHERE n > $1::text::bigint ORDER BY n LIMIT $2) page
