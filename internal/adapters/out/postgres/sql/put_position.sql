-- Sets a partition's row: at the beginning of an assignment, by its owner, and by an operator, who leaves out what stays as it is
-- of $10 to $12.
-- $1 cluster $2 group $3 topic $4 partition $5 next $6 reread below $7 gap $8 gap accepted $9 halted
-- $10 halted by $11 pass below $12 milliseconds that the topic keeps messages $13 spans to pass over
INSERT INTO consumer_position AS p (cluster_id, consumer_group, topic, partition, next_offset, reread_below, gap, gap_accepted, halted,
                                    halted_by, pass_below, topic_retention_ms, skips)
VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, nullif($9, ''), nullif($10::text, ''), coalesce($11::bigint, 0), coalesce($12::bigint, 0), $13::int8multirange)
ON CONFLICT (cluster_id, consumer_group, topic, partition) DO UPDATE
   SET next_offset = excluded.next_offset, reread_below = excluded.reread_below, gap = excluded.gap,
       gap_accepted = excluded.gap_accepted, halted = excluded.halted, updated_at = clock_timestamp(),
       halted_by = CASE WHEN excluded.halted IS NOT NULL THEN coalesce($10::text, p.halted_by) END,
       pass_below = coalesce($11::bigint, p.pass_below),
       topic_retention_ms = coalesce($12::bigint, p.topic_retention_ms), skips = excluded.skips
