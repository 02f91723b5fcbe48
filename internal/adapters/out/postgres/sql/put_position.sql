-- Sets a partition's row at the beginning of an assignment.
-- $1 cluster $2 group $3 topic $4 partition $5 next $6 reread below $7 gap $8 gap accepted $9 halted
INSERT INTO consumer_position (cluster_id, consumer_group, topic, partition, next_offset, reread_below, gap, gap_accepted, halted)
VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, nullif($9, ''))
ON CONFLICT (cluster_id, consumer_group, topic, partition) DO UPDATE
   SET next_offset = excluded.next_offset, reread_below = excluded.reread_below, gap = excluded.gap,
       gap_accepted = excluded.gap_accepted, halted = excluded.halted, updated_at = clock_timestamp()
