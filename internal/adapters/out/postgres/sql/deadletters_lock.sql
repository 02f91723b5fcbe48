-- Locks a dead letter. $1 id
SELECT id, consumer_group, topic, partition, "offset", message_time, key, value, headers, status, masked,
       EXISTS (SELECT FROM control WHERE name = 'history_lost')
  FROM dead_letter WHERE id = $1 FOR UPDATE OF dead_letter
