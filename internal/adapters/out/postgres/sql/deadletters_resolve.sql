-- Ends an open dead letter. $1 id $2 status $3 actor $4 reason
UPDATE dead_letter SET status = $2, resolved_at = clock_timestamp(), resolved_by = $3, resolved_reason = $4
 WHERE id = $1 AND status = 'open'
