-- Halts a partition that stands where its owner left it. BL002 when it does not: another owner is at work.
-- $1 cluster $2 group $3 topic $4 partition $5 next $6 reason $7 version of the binary
WITH halted AS (
    UPDATE consumer_position SET halted = $6, halted_by = $7, pass_below = 0, updated_at = clock_timestamp()
     WHERE cluster_id = $1 AND consumer_group = $2 AND topic = $3 AND partition = $4 AND next_offset = $5 AND halted IS NULL
    RETURNING next_offset
)
SELECT billing_require((SELECT count(*) FROM halted) = 1, 'BL002', 'the position moved under another owner')
