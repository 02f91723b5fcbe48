-- Advances a partition. BL002 when it does not stand where its owner left it: another owner is at work.
-- $1 cluster $2 group $3 topic $4 partition $5 from $6 next
WITH moved AS (
    UPDATE consumer_position SET next_offset = $6, updated_at = clock_timestamp()
     WHERE cluster_id = $1 AND consumer_group = $2 AND topic = $3 AND partition = $4 AND next_offset = $5 AND halted IS NULL
    RETURNING next_offset
)
SELECT billing_require((SELECT count(*) FROM moved) = 1, 'BL002', 'the position moved under another owner')
