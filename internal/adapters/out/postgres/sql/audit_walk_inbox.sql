-- The end of a page of the inbox, and its rows; the groups of one event are never parted. $1 after $2 rows
SELECT max(k COLLATE "C"), count(*)
  FROM (SELECT event_id::text AS k FROM processed_event WHERE event_id > $1::text::uuid ORDER BY event_id LIMIT $2) page
