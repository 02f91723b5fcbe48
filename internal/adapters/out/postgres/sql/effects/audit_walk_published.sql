-- The end of a page of the history, and its rows. $1 after $2 rows
SELECT max(id)::text, count(*) FROM (SELECT id FROM charge_event WHERE id > $1::text::bigint ORDER BY id LIMIT $2) page
