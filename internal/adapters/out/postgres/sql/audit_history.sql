-- R5: each move begins where the last one ended, none leaves a terminal status, and the last one led to
-- the present status. A charge without any move is R1's.
-- $1 after $2 to $3 grace in seconds
SELECT c.event_id::text,
       CASE WHEN h.left_terminal > 0 THEN 'left a terminal status'
            WHEN h.broken > 0 THEN 'a move does not begin where the last one ended'
            ELSE format('the last move led to %s, the charge is %s', h.last, c.status) END
  FROM charge c
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE m.from_status IN ('succeeded', 'declined', 'cancelled')) AS left_terminal,
              count(*) FILTER (WHERE m.from_status <> m.reached) AS broken,
              (array_agg(m.to_status ORDER BY m.id DESC))[1] AS last
         FROM (SELECT e.id, e.from_status, e.to_status, lag(e.to_status, 1, 'requested') OVER (ORDER BY e.id) AS reached
                 FROM charge_event e WHERE e.event_id = c.event_id) m) h
 WHERE c.event_id > $1::text::uuid AND c.event_id <= $2::text::uuid
   AND c.updated_at < now() - make_interval(secs => $3::float8)
   AND (h.left_terminal > 0 OR h.broken > 0 OR h.last <> c.status)
