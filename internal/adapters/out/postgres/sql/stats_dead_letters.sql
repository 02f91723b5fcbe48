-- Open dead letters.
SELECT reason, count(*), min(created_at) FROM dead_letter WHERE status = 'open' GROUP BY 1 ORDER BY 1
