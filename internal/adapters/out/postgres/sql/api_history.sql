-- The latest moves, in their order. The words of operators stay inside.
-- $1 event id $2 how many
SELECT at, type, from_status, to_status, actor, '', version, published_at FROM (
    SELECT * FROM charge_event WHERE event_id = $1 ORDER BY id DESC LIMIT $2) e
 ORDER BY id
