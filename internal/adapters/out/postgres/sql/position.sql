-- $1 cluster $2 group $3 topic $4 partition
SELECT next_offset, reread_below, coalesce(gap, ''), gap_accepted, coalesce(halted, ''), coalesce(halted_by, ''), pass_below, topic_retention_ms, skips
  FROM consumer_position
 WHERE cluster_id = $1 AND consumer_group = $2 AND topic = $3 AND partition = $4
