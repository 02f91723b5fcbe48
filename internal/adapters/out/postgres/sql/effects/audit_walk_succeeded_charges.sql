-- The end of a page of charges, and its rows. $1 after $2 rows
SELECT max(k COLLATE "C"), count(*)
  FROM (SELECT event_id::text AS k FROM charge WHERE event_id > $1::text::uuid ORDER BY event_id LIMIT $2) page
