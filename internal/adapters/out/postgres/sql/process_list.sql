-- The processes that run, the last time they were seen being so recent that they are not taken for dead.
SELECT id, host, version, roles, coalesce(gate, ''), gate_since, started_at, seen_at
  FROM process WHERE seen_at > clock_timestamp() - interval '30 seconds'
 ORDER BY host, started_at, id
