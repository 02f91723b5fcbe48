-- The end of a page of attempts, and its rows; the attempts of one charge are never parted. $1 after $2 rows
SELECT max(k COLLATE "C"), count(*)
  FROM (SELECT event_id::text AS k FROM charge_attempt WHERE event_id > $1::text::uuid ORDER BY event_id LIMIT $2) page
