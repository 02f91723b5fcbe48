-- $1 reason
INSERT INTO control (name, actor, reason) VALUES ('history_lost', 'billing', $1) ON CONFLICT (name) DO NOTHING
