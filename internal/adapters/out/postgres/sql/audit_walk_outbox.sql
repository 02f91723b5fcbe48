-- The end of a page of the outbox, and its rows. $1 after $2 rows
SELECT max(id)::text, count(*) FROM (SELECT id FROM outbox WHERE id > $1::text::bigint ORDER BY id LIMIT $2) page
