-- $1 event id
SELECT attempt, started_at, finished_at, coalesce(outcome, ''), coalesce(http_status, 0), coalesce(provider_code, ''), coalesce(detail, '')
  FROM charge_attempt WHERE event_id = $1 ORDER BY attempt
