-- The end of a page of dead letters, and its rows. $1 after $2 rows
SELECT max(id)::text, count(*) FROM (SELECT id FROM dead_letter WHERE id > $1::text::bigint ORDER BY id LIMIT $2) page
