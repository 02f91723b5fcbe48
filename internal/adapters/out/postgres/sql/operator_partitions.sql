-- Positions, of one cluster, group, topic or partition when named. $1 cluster $2 group $3 topic $4 partition, -1 for all
SELECT cluster_id, consumer_group, topic, partition, next_offset, reread_below, coalesce(gap, ''), gap_accepted, coalesce(halted, ''), updated_at, topic_retention_ms, skips
  FROM consumer_position
 WHERE $1::text IN ('', cluster_id) AND $2::text IN ('', consumer_group) AND $3::text IN ('', topic) AND $4::int IN (-1, partition)
 ORDER BY cluster_id, consumer_group, topic, partition
