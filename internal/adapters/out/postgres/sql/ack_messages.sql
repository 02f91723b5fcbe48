-- Deletes published messages and stamps what they announced. A message that is no longer its
-- publisher's stays: its new owner will say so.
-- $1 ids $2 attempts
WITH r AS MATERIALIZED (
    SELECT unnest($1::bigint[]) AS id, unnest($2::int[]) AS attempt
), gone AS (
    DELETE FROM outbox o USING r WHERE o.id = r.id AND o.attempt = r.attempt
    RETURNING o.event_id, o.version, o.dead_letter_id
), told AS (
    UPDATE charge_event e SET published_at = clock_timestamp() FROM gone g
     WHERE e.event_id = g.event_id AND e.version = g.version AND e.published_at IS NULL
), copied AS (
    UPDATE dead_letter d SET published_at = clock_timestamp() FROM gone g
     WHERE d.id = g.dead_letter_id AND d.published_at IS NULL
)
SELECT count(*) FROM gone
