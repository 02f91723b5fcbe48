-- Rows of the outbox but for those of parked charges.
SELECT channel, status, count(*), count(*) FILTER (WHERE status = 'PUBLISHING' AND run_at < statement_timestamp()), min(created_at), min(run_at)
  FROM outbox WHERE run_at < 'infinity'
 GROUP BY 1, 2 ORDER BY 1, 2
