-- Terminal charges of one page. $1 after $2 to
SELECT c.status, coalesce(c.last_outcome, ''), count(*)
  FROM charge c
 WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid AND c.status IN ('succeeded', 'declined', 'cancelled')
 GROUP BY 1, 2
