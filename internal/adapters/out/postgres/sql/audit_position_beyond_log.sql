-- R16: position and log of a partition meet, or an operator accepted the gap.
SELECT format('%s/%s', p.topic, p.partition), format('%s (cluster %s, group %s)', p.gap, p.cluster_id, p.consumer_group)
  FROM consumer_position p
 WHERE p.gap IS NOT NULL AND NOT p.gap_accepted
