-- Says that a process runs, and how its gate stands. gate_since moves only when the gate does.
-- $1 id $2 host $3 version $4 roles $5 gate, null without the role charger
INSERT INTO process (id, host, version, roles, gate, gate_since)
VALUES ($1, $2, $3, $4, $5, CASE WHEN $5::text IS NOT NULL THEN clock_timestamp() END)
ON CONFLICT (id) DO UPDATE
   SET gate = EXCLUDED.gate, seen_at = clock_timestamp(),
       gate_since = CASE WHEN process.gate IS NOT DISTINCT FROM EXCLUDED.gate THEN process.gate_since ELSE EXCLUDED.gate_since END
