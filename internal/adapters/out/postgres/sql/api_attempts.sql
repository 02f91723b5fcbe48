-- The latest attempts, in their order. $1 event id $2 how many
SELECT * FROM (
    SELECT attempt, started_at, finished_at, coalesce(outcome, ''), coalesce(http_status, 0), coalesce(provider_code, ''), ''
      FROM charge_attempt WHERE event_id = $1 ORDER BY attempt DESC LIMIT $2) a
 ORDER BY attempt
